"""The framework's names for the processes of a plan."""

from __future__ import annotations

from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan, PlannedProcess


def named(plan: Plan) -> dict[str, tuple[int, ...]]:
    """Return process ids by role, if the framework has roles."""
    if not framework_named(plan.framework).has_roles:
        return {}
    workers = tuple(process.process_id for process in plan.workers)
    evaluators = tuple(sorted(plan.hosts.keys() - set(workers)))
    return {"worker": workers, "chief": workers[:1], "evaluator": evaluators}


def task(plan: Plan, process: PlannedProcess) -> str | None:
    """Return the framework's name for a process, such as `"worker 0, chief"`; None if it has no such names."""
    return framework_named(plan.framework).role(process.role, process.task_index)
