"""From a person's options to a launch plan; all bad input is refused here, before anything starts."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal, cast

from nbdist.errors import OptionError
from nbdist.launch.model import framework as platforms
from nbdist.launch.model.framework import Asked, Framework, framework_named, frameworks
from nbdist.launch.model.hosts import AskedHost
from nbdist.launch.model.plan import Placement, Plan, Platform, plan_for
from nbdist.launch.model.rendezvous import checked_coordinator
from nbdist.launch.planning import detect
from nbdist.launch.planning.detect import asked_arguments
from nbdist.spelling import option

DEFAULT_PROCESSES = 2
PLATFORMS: tuple[Platform, ...] = ("cpu", "gpu", "tpu")


def make_plan(
    *,
    processes: int | None = None,
    devices_per_process: int | None = None,
    platform: str | None = None,
    framework: str = "jax",
    backend: str | None = None,
    job_addresses: str | None = None,
    evaluators: int = 0,
    environment: Mapping[str, str] | None = None,
    initialize: bool = True,
    start_timeout_s: float = 120.0,
    start_method: str | None = None,
    coordinator: str | None = None,
    local_device_ids: Sequence[Sequence[int]] | None = None,
    partition_index: Sequence[int] | None = None,
    placement: Placement | None = None,
    keep: bool = False,
    **jax: Any,
) -> Plan:
    """Return a plan for this machine, or for the hosts of `placement`; see `nbdist.start` for the arguments.

    Raises:
      OptionError: An impossible option, before anything is started.
    """
    environment = dict(environment or {})
    given = {**os.environ, **environment}
    placement = placement or Placement()
    here = placement.on_this_machine
    method = jax.get("cluster_detection_method")
    if here and method is not None and method != "deactivate":
        found_by = detect.asked(method, given).used()
        placement = replace(placement, remarks=(*placement.remarks, found_by))
    computes = framework_named(framework)
    if platform is not None and platform not in PLATFORMS:
        raise OptionError(f"{option('platform', platform)}: known are {', '.join(PLATFORMS)}.")
    _refuse_foreign(computes, backend, job_addresses, evaluators, coordinator)
    if placement.job is not None:
        if evaluators:
            raise OptionError(
                f"{option('evaluators', evaluators)}: all tasks of a job are workers. Reach the hosts with "
                f"{option('hosts')}, or evaluate in a cell with {option('on')}."
            )
        divided = placement.job.gpus_divided or local_device_ids is not None
        placement = replace(placement, job=replace(placement.job, gpus_divided=divided))
    chosen: Platform | None = platform or _of_placement(placement)
    found = chosen or computes.platform(given)
    # The devices of other hosts are not known before they are asked.
    accelerators = platforms.accelerators(found) if here else None
    if found == "gpu" and chosen == "gpu" and accelerators == 0 and local_device_ids is None:
        raise OptionError(f"{option('platform', 'gpu')}: no GPU was found on this machine.")
    by_flags = "xla_force_host_platform_device_count" in given.get("XLA_FLAGS", "")
    if by_flags:
        _refuse_two_counts(devices_per_process)
    if placement.hosts:
        hosts = host_counts(placement.hosts, processes)
    elif placement.job is not None:
        # The hosts of the tasks are not known before they run.
        hosts = [(f"task {task}", 1) for task in range(placement.job.processes)]
    else:
        hosts = [(socket.gethostname(), _count(processes, found, accelerators or 0))]
    count = sum(number for _, number in hosts)
    own = computes.choose(
        Asked(
            platform=found,
            processes=count,
            evaluators=evaluators,
            devices_per_process=devices_per_process,
            local_device_ids=local_device_ids,
            backend=backend,
            job_addresses=job_addresses,
            environment=given,
            here=here,
        )
    )
    return plan_for(
        hosts=hosts,
        devices_per_process=devices_per_process,
        platform=found,
        accelerators=accelerators,
        local_device_ids=local_device_ids,
        partition_index=partition_index,
        evaluators=evaluators,
        platform_chosen=chosen is not None,
        framework=framework,
        initialize=initialize,
        coordinator=checked_coordinator(coordinator, here=here),
        backend=own.backend,
        addresses=own.addresses,
        environment=_environment(found, {**own.environment, **environment}),
        given=tuple(environment),
        devices_by_flags=by_flags,
        jax=asked_arguments(jax),
        start_method=_start_method(start_method),
        start_timeout_s=start_timeout_s,
        placement=placement,
        keep=keep,
    )


def _of_placement(placement: Placement) -> Platform | None:
    """Return what the hosts compute on, if the placement says so; else None."""
    if placement.launcher == "tpu":
        return "tpu"
    return "gpu" if placement.job is not None and placement.job.gpus else None


def _refuse_foreign(
    framework: Framework,
    backend: str | None,
    job_addresses: str | None,
    evaluators: int,
    coordinator: str | None,
) -> None:
    """Refuse options of one framework with another."""
    if evaluators < 0:
        raise OptionError(f"{option('evaluators', evaluators)}: must be 0 or more.")
    asked = {"evaluators": evaluators or None, "backend": backend, "job_addresses": job_addresses}
    for name, value in asked.items():
        if value is not None and name not in framework.options:
            others = [other for other in frameworks() if name in other.options]
            raise OptionError(_foreign_text(name, value, framework, others))
    if coordinator is not None and "coordinator" not in framework.options:
        other = option("framework", framework.name)
        raise OptionError(f"{option('coordinator', coordinator)} with {other}: give one of them.")
    if coordinator is not None and job_addresses is not None:
        other = option("job_addresses")
        raise OptionError(f"{option('coordinator', coordinator)} with {other}: give one of them.")


def _foreign_text(
    name: str, value: object, framework: Framework, others: Sequence[Framework]
) -> str:
    said = f"{option(name, value)} with {option('framework', framework.name)}"
    if name == "evaluators":
        titles = " and ".join(other.title for other in others)
        return (
            f"{said}: only {titles} has evaluators. Use {option('framework', others[0].name)}, or evaluate in a "
            f"cell with {option('on')}."
        )
    words = " or ".join(option("framework", other.name) for other in others)
    return f"{said}: this is for {words}."


def host_counts(hosts: Sequence[AskedHost], processes: int | None) -> list[tuple[str, int]]:
    """Return how many processes each host gets: its own number, else `processes` divided evenly, else one.

    Raises:
      OptionError: The numbers do not agree, or cannot be divided.
    """
    names = [socket.gethostname() if host.local else host.name for host in hosts]
    said = [host.processes for host in hosts]
    known = [number for number in said if number is not None]
    silent = len(said) - len(known)
    listed = ", ".join(
        name if n is None else f"{name}:{n}" for name, n in zip(names, said, strict=True)
    )
    each = 1
    if processes is not None:
        left = processes - sum(known)
        if left < silent or (silent == 0 and left) or (silent and left % silent):
            raise OptionError(
                f"{option('processes', processes)} with hosts {listed}: these numbers do not agree. Leave "
                f"{option('processes')} out, or give hosts without numbers that {processes} can be divided "
                "among."
            )
        each = left // silent if silent else 1
    return [(name, each if n is None else n) for name, n in zip(names, said, strict=True)]


def _count(processes: int | None, platform: Platform, accelerators: int) -> int:
    if processes is not None:
        return processes
    return {"cpu": DEFAULT_PROCESSES, "gpu": max(1, accelerators), "tpu": 1}[platform]


def _refuse_two_counts(devices_per_process: int | None) -> None:
    if devices_per_process is not None:
        raise OptionError(
            f"{option('devices_per_process')} and xla_force_host_platform_device_count in XLA_FLAGS both set "
            "the number of cpu devices; give one of them."
        )


def _start_method(asked: str | None) -> Literal["fork", "spawn"]:
    # Forking after the frameworks of other systems have started threads is not safe.
    can_fork = sys.platform == "linux"
    if asked is None:
        return "fork" if can_fork else "spawn"
    if asked not in ("fork", "spawn"):
        raise OptionError(f"{option('start_method', asked)}: known are fork and spawn.")
    if asked == "fork" and not can_fork:
        raise OptionError(f"{option('start_method', 'fork')}: not safe on this system; use spawn.")
    return cast(Literal["fork", "spawn"], asked)


def _environment(platform: Platform, asked: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that engines get beyond the kernel's environment; those asked for win."""
    own = {name: value for one in frameworks() for name, value in one.always(platform).items()}
    kept = {name: value for name, value in own.items() if not os.environ.get(name)}
    return {**kept, **asked}


PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def proxy_warning(environment: Mapping[str, str], host: str) -> str | None:
    """Return a sentence about proxy variables the processes would inherit; None if there are none.

    Source: the documentation of `jax.distributed.initialize` says that they can make it time out.
    """
    found = sorted(n for n in environment if n.lower() in PROXY_VARIABLES and environment[n])
    if not found:
        return None
    names = ", ".join(found)
    empty = option("environment", dict.fromkeys(found, ""))
    return (
        f"{names} set on host {host}: jax.distributed.initialize may try to reach the coordinator through the "
        f"proxy, and time out. {empty} leaves it out."
    )
