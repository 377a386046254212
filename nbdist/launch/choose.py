"""From what a person asked for to a launch plan; all bad input is refused here, before anything starts."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from typing import Any, Literal, cast

from nbdist.errors import OptionError
from nbdist.launch import platform as platforms
from nbdist.launch.plan import Plan, Platform, local_plan

LOOPBACK = "127.0.0.1"
DEFAULT_PROCESSES = 2
PLATFORMS: tuple[Platform, ...] = ("cpu", "gpu", "tpu")
JAX_PLATFORMS = {"cpu": "cpu", "gpu": "cuda,cpu", "tpu": "tpu,cpu"}
DETECTION_METHODS = ("deactivate", "mpi4py", "ompi", "slurm", "k8s", "tpu")


def make_plan(
    *,
    processes: int | None = None,
    devices_per_process: int | None = None,
    platform: str | None = None,
    framework: str = "jax",
    environment: Mapping[str, str] | None = None,
    initialize: bool = True,
    start_timeout_s: float = 120.0,
    start_method: str | None = None,
    coordinator: str | None = None,
    local_device_ids: Sequence[Sequence[int]] | None = None,
    partition_index: Sequence[int] | None = None,
    **jax: Any,
) -> Plan:
    """A plan for this machine; see `nbdist.start` for the arguments.

    Raises:
      OptionError: Anything that cannot be, before anything is started.
    """
    environment = dict(environment or {})
    if framework != "jax":
        raise OptionError(f"framework {framework!r}: known is 'jax'.")
    if platform is not None and platform not in PLATFORMS:
        raise OptionError(f"platform {platform!r}: known are {', '.join(PLATFORMS)}.")
    chosen: Platform | None = platform
    found = chosen or platforms.choose(environment={**os.environ, **environment})
    accelerators = platforms.accelerators(found)
    if found == "gpu" and chosen == "gpu" and not accelerators and local_device_ids is None:
        raise OptionError("--platform gpu: no GPU was found on this machine.")
    given = {**os.environ, **environment}
    if "xla_force_host_platform_device_count" in given.get("XLA_FLAGS", ""):
        _refuse_two_counts(devices_per_process)
    return local_plan(
        host=socket.gethostname(),
        processes=_count(processes, found, accelerators),
        devices_per_process=devices_per_process,
        platform=found,
        accelerators=accelerators,
        local_device_ids=local_device_ids,
        partition_index=partition_index,
        platform_chosen=chosen is not None,
        initialize=initialize,
        coordinator=checked_coordinator(coordinator),
        environment=_environment(found, environment),
        jax=_jax_arguments(jax),
        start_method=_start_method(start_method),
        start_timeout_s=start_timeout_s,
    )


def _count(processes: int | None, platform: Platform, accelerators: int) -> int:
    if processes is not None:
        return processes
    return {"cpu": DEFAULT_PROCESSES, "gpu": max(1, accelerators), "tpu": 1}[platform]


def _refuse_two_counts(devices_per_process: int | None) -> None:
    if devices_per_process is not None:
        raise OptionError(
            "--devices-per-process and xla_force_host_platform_device_count in XLA_FLAGS both set the "
            "number of cpu devices; give one of them."
        )


def _start_method(asked: str | None) -> Literal["fork", "spawn"]:
    # Forking after the frameworks of other systems have started threads is not safe.
    can_fork = sys.platform == "linux"
    if asked is None:
        return "fork" if can_fork else "spawn"
    if asked not in ("fork", "spawn"):
        raise OptionError(f"--start-method {asked!r}: known are fork and spawn.")
    if asked == "fork" and not can_fork:
        raise OptionError("--start-method fork: not safe on this system; use spawn.")
    return cast(Literal["fork", "spawn"], asked)


def _environment(platform: Platform, asked: Mapping[str, str]) -> dict[str, str]:
    """What engines get beyond the kernel's environment; what was asked for wins."""
    own = {
        "JAX_PLATFORMS": JAX_PLATFORMS[platform],
        # A process that dies must not take the others along after JAX's heartbeat timeout.
        "JAX_ENABLE_RECOVERABILITY": "true",
    }
    kept = {name: value for name, value in own.items() if name not in os.environ}
    return {**kept, **asked}


_ARGUMENTS = {
    "cluster_detection_method": "cluster_detection_method",
    "initialization_timeout_s": "initialization_timeout",
    "heartbeat_timeout_s": "heartbeat_timeout_seconds",
    "shutdown_timeout_s": "shutdown_timeout_seconds",
    "coordinator_bind_address": "coordinator_bind_address",
}


def _jax_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
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
            f"--cluster-detection-method {method!r}: known are {', '.join(DETECTION_METHODS)}."
        )
    return found


def checked_coordinator(text: str | None) -> str | None:
    """`HOST[:PORT]` made complete, with a free port where none is named.

    Raises:
      OptionError: The port is in use, or cannot be read.
    """
    if text is None:
        return None
    host, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    if not port:
        return f"{host}:{free_port(host)}"
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise OptionError(f"--coordinator {text!r}: expected HOST or HOST:PORT.")
    _try_port(host, int(port), text)
    return text


def _try_port(host: str, port: int, text: str) -> None:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OptionError(
                f"--coordinator {text}: port {port} cannot be used on this machine "
                f"({error.strerror}). A new job that meets an old coordinator there joins and "
                "breaks it; leave the port out, and a free one is chosen."
            ) from error


def free_port(host: str = LOOPBACK) -> int:
    """A TCP port that is free on `host` at this moment.

    Raises:
      OptionError: `host` is no address of this machine.
    """
    with closing(socket.socket()) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise OptionError(
                f"--coordinator {host}: not an address of this machine ({error.strerror or error})."
            ) from error
        return int(probe.getsockname()[1])


PROXY_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "grpc_proxy")


def proxy_warning(environment: Mapping[str, str], host: str) -> str | None:
    """A sentence about proxy variables the processes would inherit; None when there are none.

    Source: `jax.distributed.initialize` says of itself that they can make it time out.
    """
    found = sorted(n for n in environment if n.lower() in PROXY_VARIABLES and environment[n])
    if not found:
        return None
    names = ", ".join(found)
    empty = " ".join(f"--env {name}=" for name in found)
    return (
        f"{names} set on host {host}: jax.distributed.initialize may try to reach the coordinator through the "
        f"proxy, and time out. {empty} leaves it out."
    )
