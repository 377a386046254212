"""JAX's back end, for callers that must not start one."""

from __future__ import annotations

import sys
from typing import Any


def backend() -> Any | None:
    """Return the client of the default back end; None while none is up, or if JAX is not imported.

    Starts nothing and waits for nothing. While a back end starts, which may take minutes on many hosts, JAX holds
    a lock. Every public function takes this lock, and starts a back end if none is up.

    Private API: `jax._src.xla_bridge._default_backend`, which `jax` itself reads to ask the same question.
    Without it the answer is None and no devices or arrays are shown.
    """
    bridge = sys.modules.get("jax._src.xla_bridge")
    return getattr(bridge, "_default_backend", None)


def ready() -> bool:
    """Return whether a back end is up."""
    return backend() is not None
