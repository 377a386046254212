"""Rules about changing the number of processes of a session."""

from __future__ import annotations

from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan


def why_fixed(plan: Plan) -> str | None:
    """Return why the number of processes cannot change, as a sentence; None if it can.

    Args:
      plan: The plan as it was asked for.
    """
    framework = framework_named(plan.framework)
    if framework.recovery != "in place" or plan.backend not in (None, "jax"):
        back_end = f" on {plan.backend}" if plan.backend else ""
        return (
            "The number of processes is changed for JAX, and for Keras on JAX, and these compute with "
            f"{framework.title}{back_end}."
        )
    if plan.addresses:
        return "Addresses were given to processes one by one."
    if plan.platform != "cpu":
        return (
            f"The number of processes is changed where they compute on the CPU alone: a {plan.platform.upper()} "
            "belongs to one process at a time, and new ones begin while the others are there."
        )
    job = plan.placement.job
    if job is not None and job.allocation is None:
        return (
            "The processes are the tasks of a job, which keeps its size; a step of an allocation (salloc, "
            "sbatch) need not."
        )
    if not plan.initialize:
        return "The cells themselves have joined the processes."
    if plan.jax.get("local_device_ids") or any(
        one.local_device_ids is not None or one.partition_index is not None
        for one in plan.processes
    ):
        return "Devices were given to processes one by one."
    return None


def can_leave_out_hosts(plan: Plan) -> bool:
    """Return whether the session can go on without one of its hosts; never if a scheduler places the tasks."""
    return (
        len(set(plan.hosts.values())) > 1 and why_fixed(plan) is None and plan.placement.job is None
    )
