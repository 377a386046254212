"""Broadcasting the framework's initialisation, each process with its own arguments."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any

from nbdist.errors import LaunchError, NbdistError
from nbdist.launch.calling import Asked, ask
from nbdist.launch.choose import LOOPBACK, free_port
from nbdist.launch.plan import Plan, PlannedProcess
from nbdist.launch.start import POLL_SECONDS, Running, Tell
from nbdist.quantities import processes_text

MARGIN_SECONDS = 15.0
"""How much longer than JAX's own timeout is waited for its error text."""

JAX_INITIALIZATION_TIMEOUT = 300
"""Source: the default of `jax.distributed.initialize`, in seconds."""


def join(running: Running, *, tell: Tell) -> dict[int, dict[str, Any]]:
    """Has all processes join one cluster and start their back ends.

    Returns:
      What each process answered (see `nbdist.engine.jax.start.initialize`), by process id.

    Raises:
      LaunchError: A process failed, ended, or did not connect in time; all of them are named.
    """
    plan = running.plan
    coordinator = plan.coordinator or f"{LOOPBACK}:{free_port()}"
    asked = {
        process.process_id: ask(
            running.client[running.engines[process.process_id]],
            "initialize",
            framework=plan.framework,
            devices=process.devices if _devices_by_config(plan) else None,
            arguments=arguments(plan, process, coordinator) if plan.initialize else None,
            loopback=coordinator.startswith(LOOPBACK),
        )
        for process in plan.processes
    }
    return _collect(running, asked, tell)


def _devices_by_config(plan: Plan) -> bool:
    flags = plan.environment.get("XLA_FLAGS", os.environ.get("XLA_FLAGS", ""))
    return "xla_force_host_platform_device_count" not in flags


def arguments(plan: Plan, process: PlannedProcess, coordinator: str) -> dict[str, Any]:
    """The keyword arguments of `jax.distributed.initialize` for one process.

    All are given, and detection is switched off: JAX detects a cluster whenever `local_device_ids` is
    unset, even with all else given, and stray SLURM_* or OMPI_* variables would mislead it.
    """
    found: dict[str, Any] = {
        "coordinator_address": coordinator,
        "num_processes": len(plan.processes),
        "process_id": process.process_id,
        "cluster_detection_method": "deactivate",
        "coordinator_bind_address": coordinator,
    }
    if process.local_device_ids is not None:
        found["local_device_ids"] = list(process.local_device_ids)
    if process.partition_index is not None:
        found["partition_index"] = process.partition_index
    return {**found, **plan.jax}


def _collect(running: Running, asked: Mapping[int, Asked], tell: Tell) -> dict[int, dict[str, Any]]:
    plan = running.plan
    answers: dict[int, dict[str, Any]] = {}
    limit = plan.jax.get("initialization_timeout", JAX_INITIALIZATION_TIMEOUT) + MARGIN_SECONDS
    deadline = time.monotonic() + limit
    while len(answers) < len(asked):
        for process_id, request in asked.items():
            if process_id not in answers and request.ready():
                answers[process_id] = _answer(
                    running, process_id, request, set(asked) - set(answers)
                )
                tell("joined", len(answers), len(asked))
        if running.exits:
            raise LaunchError(_ended(running, set(asked) - set(answers)))
        if time.monotonic() > deadline:
            raise LaunchError(_missing(plan, set(asked) - set(answers)))
        time.sleep(POLL_SECONDS / 2)
    return answers


def _ended(running: Running, unanswered: set[int]) -> str:
    """A process has ended while all were joining. JAX ends those that wait too long for another."""
    plan = running.plan
    process_id, end = next(iter(running.exits.items()))
    lines = "\n".join(f"  {line}" for line in end.last_lines)
    text = (
        f"Process {process_id} (host {plan.hosts[process_id]}, pid {end.pid}) {end} while the "
        f"processes joined their cluster.\n{lines}".rstrip()
    )
    waited_for = unanswered - set(running.exits)
    if "DEADLINE_EXCEEDED" in text and waited_for:
        return f"{_missing(plan, waited_for)}\n{text}"
    return text


def _answer(running: Running, process_id: int, request: Asked, missing: set[int]) -> dict[str, Any]:
    try:
        return request.get()[0]
    except NbdistError as error:
        text = str(error)
        if "DEADLINE_EXCEEDED" in text or "timed out" in text.lower():
            others = missing - {process_id}
            text = f"{_missing(running.plan, others)}\n{text}" if others else text
        raise LaunchError(
            f"Process {process_id} (host {running.plan.hosts[process_id]}) could not initialize "
            f"{running.plan.framework}: {text}"
        ) from error


def _missing(plan: Plan, ids: set[int]) -> str:
    hosts = ", ".join(sorted({plan.hosts[process_id] for process_id in ids}))
    return (
        f"{processes_text(ids)} (host {hosts}) did not connect to the coordinator in time. "
        "Give them longer with --initialization-timeout."
    )
