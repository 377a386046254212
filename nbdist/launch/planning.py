"""From the options of a start to a plan: where processes run, and what runs there.

All bad input is refused here, before anything starts.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, cast

from nbdist.errors import OptionError
from nbdist.launch import detection
from nbdist.launch.launchers import JOBS, launcher
from nbdist.launch.model.framework import (
    Asked,
    FrameworkLaunch,
    checked_coordinator,
    framework_named,
    frameworks,
)
from nbdist.launch.model.hosts import AskedHost, SshOptions, host_counts, parse_hosts, read_hosts
from nbdist.launch.model.plan import Launcher, Placement, Plan, Platform, plan_for
from nbdist.launch.model.start_options import DEFAULT_PROCESSES, FLAGS, StartOptions
from nbdist.machine import checkup
from nbdist.spelling import option

FOR_HOSTS = ("ssh_config", "remote_python", "min_hosts", "cwd", "controller_address", "tunnel")
"""Options that need hosts."""


def choose_placement(asked: StartOptions) -> Placement:
    """Return where processes run, and who starts them there.

    Raises:
      OptionError: Hosts that cannot be read, a file that does not exist, or options that need others.
      LaunchError: The source of information about a TPU, or Slurm, fails.
    """
    chosen = _launcher(asked)
    hosts = _hosts(asked)
    if not hosts and chosen is None:
        for name, value in asked.chosen(FOR_HOSTS).items():
            if value is not None and value is not False:
                raise OptionError(
                    f"{option(name, value)}: for hosts only; name them with {option('hosts')}."
                )
        return Placement()
    config = None if asked.ssh_config is None else Path(asked.ssh_config).expanduser()
    if config is not None and not config.is_file():
        raise OptionError(f"{option('ssh_config', asked.ssh_config)}: there is no such file.")
    ssh = SshOptions(
        python=asked.remote_python or sys.executable, config=None if config is None else str(config)
    )
    is_job = chosen in JOBS
    if is_job and asked.min_hosts is not None:
        raise OptionError(
            f"{option('min_hosts', asked.min_hosts)}: with {option(str(chosen), True)} all processes come up, or "
            "none."
        )
    if asked.tunnel:
        _refuse_beside_tunnel(asked, is_job=is_job)
    placed = (
        Placement(launcher="ssh", hosts=hosts, ssh=ssh)
        if chosen is None
        else launcher(chosen).placement(asked, hosts, ssh)
    )
    address = asked.controller_address or placed.controller_address
    placed = replace(placed, cwd=asked.cwd, controller_address=address)
    if is_job:
        return placed
    count = len(placed.hosts)
    if asked.min_hosts is not None and not 1 <= asked.min_hosts <= count:
        raise OptionError(
            f"{option('min_hosts', asked.min_hosts)} with {count} hosts: expected 1 to {count}."
        )
    if asked.tunnel:
        _refuse_own_processes(placed.hosts)
    return replace(placed, min_hosts=asked.min_hosts, tunnel=asked.tunnel)


def _launcher(asked: StartOptions) -> Launcher | None:
    """Return the launcher that is asked for, None for ssh; refuse its options without it, and two launchers."""
    chosen: list[Launcher] = [name for name in JOBS if getattr(asked, name)]
    if len(chosen) > 1:
        both = " and ".join(option(name, True) for name in chosen)
        raise OptionError(f"{both} both start the processes. Use one of them.")
    for owner in JOBS:
        heading = launcher(owner).options
        its = [name for name, flag in FLAGS.items() if flag.group == heading]
        given = [name for name, value in asked.chosen(its).items() if value and name != owner]
        if given and owner not in chosen:
            raise OptionError(f"{option(given[0])}: for {option(owner, True)} only.")
    if asked.tpu is None:
        for name, value in asked.chosen(("zone", "project")).items():
            if value is not None:
                raise OptionError(
                    f"{option(name, value)}: for TPUs only; name one with {option('tpu')}."
                )
        return chosen[0] if chosen else None
    if chosen:
        raise OptionError(
            f"{option('tpu')} reaches its hosts with ssh; leave {option('slurm', True)} and "
            f"{option('mpi', True)} out."
        )
    return "tpu"


def _refuse_beside_tunnel(asked: StartOptions, *, is_job: bool) -> None:
    if is_job:
        raise OptionError(
            f"{option('tunnel', True)} goes through ssh to each host; leave {option('slurm', True)} and "
            f"{option('mpi', True)} out, and name the hosts with {option('hosts')}."
        )
    if asked.controller_address is not None:
        raise OptionError(
            f"{option('tunnel', True)}: the hosts reach this machine at no address of its own; leave "
            f"{option('controller_address', asked.controller_address)} out."
        )


def _refuse_own_processes(hosts: Sequence[AskedHost]) -> None:
    """Refuse processes on this machine beside a tunnel."""
    for host in hosts:
        if host.local:
            raise OptionError(
                f"{option('tunnel', True)}: processes on this machine ({host.name}) cannot be reached by those on "
                f"the hosts, and all compute together. Leave it out of {option('hosts')}."
            )


def _hosts(asked: StartOptions) -> tuple[AskedHost, ...]:
    """Return the hosts that are named in one way or the other; empty if none are."""
    hosts = asked.hosts
    if hosts is not None and asked.hosts_file is not None:
        raise OptionError(
            f"{option('hosts')} and {option('hosts_file')} both name the hosts. Use one of them."
        )
    if asked.hosts_file is not None:
        return read_hosts(Path(asked.hosts_file))
    if hosts is None:
        return ()
    if isinstance(hosts, str):
        return parse_hosts(hosts)
    if all(isinstance(host, AskedHost) for host in hosts):
        return tuple(host for host in hosts if isinstance(host, AskedHost))
    if isinstance(hosts, Mapping):
        hosts = [f"{name}:{count}" for name, count in hosts.items()]
    return parse_hosts(",".join(map(str, hosts)))


PLATFORMS: tuple[Platform, ...] = ("cpu", "gpu", "tpu")

LOCAL = Placement()


def make_plan(asked: StartOptions, placement: Placement = LOCAL) -> Plan:
    """Return a plan for this machine, or for the hosts of `placement`.

    Raises:
      OptionError: An impossible option, before anything is started.
    """
    added = dict(asked.environment or {})
    given = {**os.environ, **added}
    here = placement.on_this_machine
    arguments = _asked_arguments(asked)
    method = asked.cluster_detection_method
    if here and method is not None and method != detection.OFF:
        found_by = detection.detected(method, given).used()
        placement = replace(placement, remarks=(*placement.remarks, found_by))
    framework = framework_named(asked.framework)
    if asked.platform is not None and asked.platform not in PLATFORMS:
        raise OptionError(
            f"{option('platform', asked.platform)}: known are {', '.join(PLATFORMS)}."
        )
    _refuse_foreign(framework, asked)
    placement = _with_gpus_divided(asked, placement)
    chosen = asked.platform or _of_placement(placement)
    found = chosen or framework.platform(given)
    # The devices of other hosts are not known before their agents report them.
    accelerators = checkup.accelerators().get(f"{found}s", 0) if here else None
    if found == chosen == "gpu" and accelerators == 0 and asked.local_device_ids is None:
        raise OptionError(f"{option('platform', 'gpu')}: no GPU was found on this machine.")
    by_flags = "xla_force_host_platform_device_count" in given.get("XLA_FLAGS", "")
    if by_flags and asked.devices_per_process is not None:
        raise OptionError(
            f"{option('devices_per_process')} and xla_force_host_platform_device_count in XLA_FLAGS both set "
            "the number of cpu devices; give one of them."
        )
    hosts = _counts(asked, placement, found, accelerators)
    own = framework.choose(
        Asked(
            options=asked,
            platform=found,
            processes=sum(number for _, number in hosts),
            environment=given,
            here=here,
        )
    )
    return plan_for(
        hosts=hosts,
        devices_per_process=asked.devices_per_process,
        platform=found,
        accelerators=accelerators,
        local_device_ids=asked.local_device_ids,
        partition_index=asked.partition_index,
        evaluators=asked.evaluators,
        platform_chosen=chosen is not None,
        framework=asked.framework,
        initialize=asked.initialize,
        coordinator=checked_coordinator(asked.coordinator, here=here),
        backend=own.backend,
        addresses=own.addresses,
        environment=_environment(found, {**own.environment, **added}),
        given=tuple(added),
        devices_by_flags=by_flags,
        jax=arguments,
        start_method=_start_method(asked.start_method),
        start_timeout_s=asked.start_timeout_s,
        placement=placement,
        keep=asked.keep,
    )


def _with_gpus_divided(asked: StartOptions, placement: Placement) -> Placement:
    """Return the placement, whose job divides the GPUs of a host if its scheduler or the person says so.

    Raises:
      OptionError: Evaluators are asked for beside a job.
    """
    if placement.job is None:
        return placement
    if asked.evaluators:
        raise OptionError(
            f"{option('evaluators', asked.evaluators)}: all tasks of a job are workers. Reach the hosts with "
            f"{option('hosts')}, or evaluate in a cell with {option('on')}."
        )
    divided = placement.job.gpus_divided or asked.local_device_ids is not None
    return replace(placement, job=replace(placement.job, gpus_divided=divided))


def _counts(
    asked: StartOptions, placement: Placement, platform: Platform, accelerators: int | None
) -> Sequence[tuple[str, int]]:
    """Return the hosts, each with its number of processes; in place of the host of a job's task, the task."""
    if placement.hosts:
        return host_counts(placement.hosts, asked.processes)
    if placement.job is not None:
        # The hosts of the tasks are not known before they run.
        return [(f"task {task}", 1) for task in range(placement.job.processes)]
    default = {"cpu": DEFAULT_PROCESSES, "gpu": max(1, accelerators or 0), "tpu": 1}[platform]
    return [(socket.gethostname(), default if asked.processes is None else asked.processes)]


_ARGUMENTS = {
    "cluster_detection_method": "cluster_detection_method",
    "initialization_timeout_s": "initialization_timeout",
    "heartbeat_timeout_s": "heartbeat_timeout_seconds",
    "shutdown_timeout_s": "shutdown_timeout_seconds",
    "coordinator_bind_address": "coordinator_bind_address",
}
"""Arguments of `jax.distributed.initialize`, by the option."""


def _asked_arguments(asked: StartOptions) -> dict[str, Any]:
    """Return the options that a person has given, under JAX's names for them."""
    options = asked.chosen(tuple(_ARGUMENTS))
    found = {_ARGUMENTS[name]: value for name, value in options.items() if value is not None}
    for name, value in found.items():
        if name.endswith(("timeout", "seconds")) and value <= 0:
            raise OptionError(f"{name}={value}: must be more than 0 seconds.")
    method = asked.cluster_detection_method
    if method is not None and method not in (known := (detection.OFF, *detection.METHODS)):
        raise OptionError(
            f"{option('cluster_detection_method', method)}: known are {', '.join(known)}."
        )
    return found


def _of_placement(placement: Placement) -> Platform | None:
    """Return what the hosts compute on, if the placement determines it; else None."""
    if placement.launcher == "tpu":
        return "tpu"
    return "gpu" if placement.job is not None and placement.job.gpus else None


def _refuse_foreign(framework: FrameworkLaunch, asked: StartOptions) -> None:
    """Refuse options of one framework with another."""
    if asked.evaluators < 0:
        raise OptionError(f"{option('evaluators', asked.evaluators)}: must be 0 or more.")
    for name, value in asked.chosen(("evaluators", "backend", "job_addresses")).items():
        if value and name not in framework.options:
            others = [other for other in frameworks() if name in other.options]
            raise OptionError(_foreign_text(name, value, framework, others))
    if asked.coordinator is None:
        return
    if "coordinator" not in framework.options:
        other = option("framework", framework.name)
    elif asked.job_addresses is not None:
        other = option("job_addresses")
    else:
        return
    given = option("coordinator", asked.coordinator)
    raise OptionError(f"{given} with {other}: give one of them.")


def _foreign_text(
    name: str, value: object, framework: FrameworkLaunch, others: Sequence[FrameworkLaunch]
) -> str:
    given = f"{option(name, value)} with {option('framework', framework.name)}"
    if name == "evaluators":
        titles = " and ".join(other.title for other in others)
        return (
            f"{given}: only {titles} has evaluators. Use {option('framework', others[0].name)}, or evaluate in a "
            f"cell with {option('on')}."
        )
    words = " or ".join(option("framework", other.name) for other in others)
    return f"{given}: this is for {words}."


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
    """Return the variables that engines get beyond the kernel's environment; `asked` takes precedence."""
    own = {name: value for one in frameworks() for name, value in one.always(platform).items()}
    kept = {name: value for name, value in own.items() if not os.environ.get(name)}
    return {**kept, **asked}


def proxy_warning(environment: Mapping[str, str], host: str) -> str | None:
    """Return a sentence about proxy variables the processes would inherit; None if there are none."""
    found = sorted(n for n in environment if n.lower() in detection.PROXIES and environment[n])
    if not found:
        return None
    names = ", ".join(found)
    empty = option("environment", dict.fromkeys(found, ""))
    return (
        f"{names} set on host {host}: jax.distributed.initialize may try to reach the coordinator through the "
        f"proxy, and time out. {empty} leaves it out."
    )
