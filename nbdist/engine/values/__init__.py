"""Values on their way between an engine and the kernel: arrays in pieces as raw bytes, the rest pickled.

In come a value that a kernel pulls, or the messages of one that it pushes. Out go descriptions, digests and pieces
of arrays, or values that get their names when all are whole. `nbdist.session.values` is the kernel's end, and uses
the pickles of `arrays.py` too.

Read first `outgoing.py` for a pull and `incoming.py` for a push; `arrays.py` has what both use.
"""
