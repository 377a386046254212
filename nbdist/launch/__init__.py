"""Launch of a session: from what a person asks for to engines that answer, or back to engines that already run.

What comes in: options, as `nbdist.start` has them, or the word after `--attach`.

What goes out: a `start.cluster.Cluster` of engines that have joined each other.

Read first: `model/plan.py`, what a start is to start; `planning.py`, how options become such a plan, with a module
of `launchers/` for each way to hosts; `start/spawn.py` and `start/connect.py`, how a plan becomes engines.
"""
