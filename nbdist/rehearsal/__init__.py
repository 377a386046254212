"""Pods that are not there: plans of arrays on them, programs compiled for them, and processes that do both.

In come a topology and a mesh as a person writes them (`v5e:16x16`, `data=16,model=16`), and a value with its
specs, a function, a cell or a script. Out go an `ArrayPlan`, or `Program`s with what each device needs and what
they send; both with texts and pictures. No device is needed, and no program runs: libtpu compiles without a TPU.

Read first `plan/plan.py` for plans, `pod/pod.py` for programs, and `run/rehearsing.py` for cells in a process of
their own.
"""
