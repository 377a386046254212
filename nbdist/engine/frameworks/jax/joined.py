"""How far JAX is on an engine that somebody else has started: asked without starting anything."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from nbdist.contract.calls.engine import Membership, UsedDevices
from nbdist.engine.frameworks.jax import backend


def joined() -> Membership | None:
    """The process id and count under which this process is in a cluster of JAX's; None while it is in none.

    Private API: `jax._src.distributed.global_state` (jax 0.10.2). The public ways, `jax.process_index()` and
    `jax.process_count()`, start a back end. Where it is gone the answer is None.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    if getattr(state, "client", None) is None:
        return None
    return Membership(process_id=int(state.process_id), count=int(state.num_processes))  # type: ignore[union-attr]


def configure(environment: Mapping[str, str]) -> list[str]:
    """Changes JAX's configuration in the stead of variables, which it reads when it is imported.

    Returns:
      The names of those that came too late.
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
    """Those of the back end; None while none is up."""
    if not backend.ready():
        return None
    jax = sys.modules["jax"]
    devices = jax.devices()
    return UsedDevices(
        local=jax.local_device_count(), everywhere=len(devices), platform=devices[0].platform
    )
