"""Debuggers in the middle of a cell: they ask their questions in the notebook, and get their lines from there."""
