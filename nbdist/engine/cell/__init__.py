"""The cell that runs: its lines, its output, how it is interrupted, and its debugger.

In come a cell, as an execute request with its label (`nbdist.contract.cells`), interrupts, and the lines that a
person types for a debugger. Out go the cell's output, also what C++ writes past Python, the error as a person
should read it, and, for other threads, where the cell stands. Nothing here imports a framework.

Read first: `../kernel/shell.py` (a cell begins and ends), `running.py` (the state that other threads read) and
`interrupts.py` (when SIGINT is raised).
"""
