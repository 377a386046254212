"""JAX: `jax.distributed.initialize` on each process, with all arguments given."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from nbdist.agent.coordinator import HEARTBEAT_SECONDS
from nbdist.errors import LaunchError, OptionError
from nbdist.launch.model.plan import Plan, PlannedProcess
from nbdist.launch.model.rendezvous import Rendezvous
from nbdist.launch.planning.detect import METHODS
from nbdist.launch.planning.frameworks import Answers
from nbdist.quantities import count_text
from nbdist.spelling import option

PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
UNUSED = "127.0.0.1:0"
DETECTION_METHODS = ("deactivate", *METHODS)

_ARGUMENTS = {
    "cluster_detection_method": "cluster_detection_method",
    "initialization_timeout_s": "initialization_timeout",
    "heartbeat_timeout_s": "heartbeat_timeout_seconds",
    "shutdown_timeout_s": "shutdown_timeout_seconds",
    "coordinator_bind_address": "coordinator_bind_address",
}


def preload(plan: Plan) -> list[str]:
    """JAX itself."""
    return ["jax"]


def environment(plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> dict[str, str]:
    """Nothing beyond what all processes get."""
    return {}


def stages(plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> list[dict[str, Any]]:
    """One: join the cluster."""
    return [
        {
            "devices": process.devices if devices_by_config(plan) else None,
            "arguments": arguments(plan, process, rendezvous) if plan.initialize else None,
            "gloo": rendezvous.own.get(process.process_id),
        }
    ]


def check(plan: Plan, answers: Answers) -> None:
    """JAX has compared the processes itself; on a TPU it takes their numbers from libtpu.

    Raises:
      LaunchError: The numbers are not those of the plan.
    """
    other = {p: a["process_id"] for p, a in answers.items() if a.get("process_id", p) != p}
    if other:
        listed = ", ".join(
            f"process {p} (host {plan.hosts[p]}) is JAX's process {number}"
            for p, number in other.items()
        )
        raise LaunchError(
            f"JAX numbers the processes in another order: {listed}. Name the hosts in JAX's order with "
            f"{option('hosts')}."
        )


def summary(plan: Plan, answers: Answers) -> str | None:
    """The number of global devices."""
    first = next(iter(answers.values()))
    return count_text(first["global"], f"{plan.platform} device") if "global" in first else None


def remarks(plan: Plan, answers: Answers) -> list[str]:
    """None."""
    return []


def devices_by_config(plan: Plan) -> bool:
    """Whether the number of virtual devices is set through JAX's configuration, not by XLA_FLAGS."""
    flags = plan.environment.get("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    return "xla_force_host_platform_device_count" not in flags


def arguments(plan: Plan, process: PlannedProcess, rendezvous: Rendezvous) -> dict[str, Any]:
    """The keyword arguments of `jax.distributed.initialize` for one process.

    All are given, and detection is switched off: JAX detects a cluster whenever `local_device_ids` is
    unset, even with all else given, and stray SLURM_* or OMPI_* variables would mislead it.
    """
    found: dict[str, Any] = {
        "coordinator_address": rendezvous.coordinator,
        "num_processes": len(plan.processes),
        "process_id": process.process_id,
        "cluster_detection_method": "deactivate",
        "coordinator_bind_address": rendezvous.coordinator,
    }
    if rendezvous.served:
        # A death is seen by nbdist; a pause of all processes must not end them.
        found["heartbeat_timeout_seconds"] = HEARTBEAT_SECONDS
    if process.local_device_ids is not None:
        found["local_device_ids"] = list(process.local_device_ids)
    if process.partition_index is not None:
        found["partition_index"] = process.partition_index
    found |= plan.jax
    if rendezvous.served:
        # JAX has process 0 serve in any case; at this one nobody will ask.
        found["coordinator_bind_address"] = UNUSED
    return found


def asked_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """What was asked for, under the names `jax.distributed.initialize` has for it.

    Raises:
      OptionError: A name nobody has, or a value that cannot be.
    """
    unknown = sorted(set(asked) - set(_ARGUMENTS))
    if unknown:
        raise OptionError(f"nbdist.start() has no argument {unknown[0]!r}.")
    found = {_ARGUMENTS[name]: value for name, value in asked.items() if value is not None}
    for name, value in found.items():
        if name.endswith(("timeout", "seconds")) and value <= 0:
            raise OptionError(f"{name}={value}: must be more than 0 seconds.")
    method = found.get("cluster_detection_method")
    if method is not None and method not in DETECTION_METHODS:
        raise OptionError(
            f"{option('cluster_detection_method', method)}: known are {', '.join(DETECTION_METHODS)}."
        )
    return found
