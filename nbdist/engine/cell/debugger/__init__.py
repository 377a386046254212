"""Debuggers in the middle of a cell: their questions go to the notebook, and their lines come from there."""
