"""Support for JAX; imported only where the user wants it.

In come the questions and orders of the engine, as calls of the capabilities in `framework.py`: start JAX, describe
or summarize what is there, read arrays and make them, keep in step, repair. Out go answers as types of
`nbdist.contract`, and objects behind an interface, such as an observer, a comparer or a repair.

Read first `framework.py`, which names the module that answers each question; then `start.py`, how a process joins
the others; then `describe.py`, how arrays, meshes and shardings become descriptions. `step/` counts programs and
proves that processes are in step; `repair/` makes a back end anew in place.
"""
