"""Transfer of all that the user's names lead to, from a process that lives to one that replaces another.

In come the user's dictionary, and what cells have changed in modules, IPython, Python's settings and the
frameworks. Out go pickles, with arrays as raw bytes beside them, which a kernel takes to the new process; there
all is set again. Parts of arrays that processes keep for each other, for use after a loss, lie here as well.

Read first `moving.py`, both ends of a transfer, then `packing.py`, the pickles, and `things.py`, what a
framework answers; for state beside names, `process.py`.
"""
