"""JAX's back end, for those who must not start one."""

from __future__ import annotations

import sys
from typing import Any


def backend() -> Any | None:
    """The client of the default back end; None while none is up, or where JAX is not imported.

    Starts nothing and waits for nothing: JAX holds a lock for as long as a back end starts, which on many
    hosts may be minutes, and each public way to ask takes it and starts one where there is none.

    Private API: `jax._src.xla_bridge._default_backend`, which `jax` itself reads to ask the same question.
    When it is gone the answer is None and no devices or arrays are shown.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    return getattr(bridge, "_default_backend", None)


def ready() -> bool:
    """Whether a back end is up."""
    return backend() is not None
