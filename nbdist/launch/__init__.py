"""Launch of a session: from what a person asks for to engines that answer, or back to engines that already run.

What comes in: the options of `nbdist.start`, or the word after `--attach`.

What goes out: a `start.cluster.Cluster` of engines that have joined each other.

Read first: `model/plan.py`, what is to be started; `planning.py`, how options become such a plan, with a module of
`launchers/` for each way to reach hosts; `start/spawn.py` and `start/connect.py`, how a plan becomes engines.
"""
