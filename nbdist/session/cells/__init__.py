"""Running one cell on many processes: sending it, watching it, ending it.

In: a cell, its target processes, and a `CellContext`: the session's connection, reports, facts and remedies.
Out: the output as it comes, a `CellHandle` to wait with, an `EndOfCell` for the session, and the error of a cell
that has failed.

Read first: `cellrun.py` (a cell from its first line of output to its end), `execution.py` (what was sent, what
came back), `watch.py` (the rules by which no cell hangs).
"""
