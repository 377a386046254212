"""State of JAX on an engine that somebody else has started: cluster, configuration, devices; starts nothing."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from nbdist.contract.calls.engine import Membership, UsedDevices
from nbdist.engine.frameworks.jax import backend


def joined() -> Membership | None:
    """Return this process's id in a cluster of JAX and the number of processes; None while it is in none.

    Private API: `jax._src.distributed.global_state` (jax 0.10.2). The public functions, `jax.process_index()`
    and `jax.process_count()`, start a back end. Without the private name the answer is None.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if getattr(state, "client", None) is None:
        return None
    return Membership(process_id=int(state.process_id), count=int(state.num_processes))  # type: ignore[union-attr]


def configure(environment: Mapping[str, str]) -> list[str]:
    """Set environment variables in JAX's configuration, since JAX reads variables only when it is imported.

    Returns:
      The names of variables that come too late: `jax.config` has no option of their name.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return []
    late = []
    for name, value in environment.items():
        known = name.lower() if hasattr(jax.config, name.lower()) else None
        if known is None:
            late.append(name)
        else:
            jax.config.update(known, {"true": True, "false": False}.get(value.lower(), value))
    return late


def devices() -> UsedDevices | None:
    """Return the numbers and the platform of the back end's devices; None while no back end is up."""
    if not backend.ready():
        return None
    jax = sys.modules["jax"]
    devices = jax.devices()
    return UsedDevices(
        local=jax.local_device_count(), everywhere=len(devices), platform=devices[0].platform
    )
