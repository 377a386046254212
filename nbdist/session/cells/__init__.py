"""Running one cell on many processes: sending it, watching it, ending it.

In: a cell, its target processes, and a `CellContext` with the session's connection, reports, facts and remedies.
Out: the output as it arrives, a `CellHandle` to wait for the cell, an `EndOfCell` for the session, and the error
of a failed cell.

Read first: `cellrun.py` (a cell from its first line of output to its end), `execution.py` (what was sent, what
came back), `watch.py` (the rules by which no cell hangs).
"""
