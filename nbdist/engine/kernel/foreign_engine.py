"""What an engine says of itself that somebody else has started: asked without starting or changing anything."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbdist.engine.frameworks.jax import backend
from nbdist.machine.checkup import version
from nbdist.machine.ports import free_ports, own_address
from nbdist.version import __version__

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

NUMBERS = ("NBDIST_PROCESS_ID", "SLURM_PROCID", "OMPI_COMM_WORLD_RANK", "PMI_RANK")
"""Variables in which a launcher tells a process its number, in the order in which they are believed."""


def describe(resident: Resident, framework: str, controller: str, ports: int) -> dict[str, Any]:
    """Who this engine is, and how far its framework is.

    Args:
      resident: This engine.
      framework: What the session is to compute with.
      controller: The address at which this host reaches ipyparallel's controller.
      ports: How many free ports are wanted.

    Returns:
      `nbdist`, `python`, `host`, `pid`, `ident`; `settled`, the process id a kernel has given it before, or
      None; `numbers`, what its environment says; `joined`, the process id and count of JAX's cluster it is in,
      or None; `up`, whether a back end is; `devices`, where one is; `version` of the framework, None where it is
      not installed; `address` and `ports`.
    """
    return {
        "nbdist": __version__,
        "python": ".".join(map(str, sys.version_info[:3])),
        "host": resident.host,
        "pid": resident.pid,
        "ident": resident.kernel.ident,
        "settled": resident.process_id if resident.process_id >= 0 else None,
        "numbers": {n: int(os.environ[n]) for n in NUMBERS if os.environ.get(n, "").isdigit()},
        "joined": joined(),
        "up": backend.ready(),
        "devices": _devices(),
        "version": getattr(sys.modules.get(framework), "__version__", None) or version(framework),
        "address": own_address(controller),
        "ports": free_ports(ports),
    }


def joined() -> dict[str, int] | None:
    """The process id and count under which this process is in a cluster of JAX's; None while it is in none.

    Private API: `jax._src.distributed.global_state` (jax 0.10.2). The public ways, `jax.process_index()` and
    `jax.process_count()`, start a back end. Where it is gone the answer is None.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if getattr(state, "client", None) is None:
        return None
    return {"process_id": int(state.process_id), "count": int(state.num_processes)}  # type: ignore[union-attr]


def prepare(environment: Mapping[str, str]) -> list[str]:
    """Puts variables in place that nobody has set yet.

    JAX reads its own when it is imported. Where that is past, its configuration is changed in their stead; the
    others come too late.

    Returns:
      The names of those that came too late.
    """
    new = {name: value for name, value in environment.items() if name not in os.environ}
    os.environ.update(new)
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    late = []
    for name, value in new.items():
        known = name.lower() if hasattr(jax.config, name.lower()) else None
        if known is None:
            late.append(name)
        else:
            jax.config.update(known, {"true": True, "false": False}.get(value.lower(), value))
    return late


def _devices() -> dict[str, Any] | None:
    if not backend.ready():
        return None
    jax = sys.modules["jax"]
    devices = jax.devices()
    return {
        "local": jax.local_device_count(),
        "global": len(devices),
        "platform": devices[0].platform,
    }
