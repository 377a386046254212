"""Repair in place: a new back end under the same Python objects, with all that they refer to.

In come the user's namespace and the step of this process, after a failure; then, part by part, what the kernel has
learned from all processes: the last program that all have sent, where to join, which arrays are lost. Out go what
was saved and what was restored (`SavedForRepair`, `Restored`); the user's names lead to new arrays.

Read first `repair.py`, the four parts in their order; then `survey.py`, how old objects and what refers to them
are found; then `become.py`, which re-points every reference.
"""
