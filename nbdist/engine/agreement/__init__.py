"""Facts that must be equal on all processes before they run a cell; imports no framework.

In come a cell's text, the user's namespace, and a `Comparer` of each imported framework. Out go digests, one for
each topic, and the facts themselves where digests differ; `nbdist.session.cells.check` compares those of all
processes.

Read first `facts.py`, which has all topics, then `reads.py`, which finds the names that a cell reads.
"""
