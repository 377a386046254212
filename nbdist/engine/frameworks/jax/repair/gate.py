"""Gate before JAX's back ends: while they are down for a repair, the user's threads that need one wait.

A thread that computes would start a new back end as soon as the old one is gone. JAX then refuses to join the
other processes (`jax.distributed.initialize() must be called before any JAX calls`), also in every later repair.
"""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

from nbdist.spelling import command

LOOK_SECONDS = 0.01
"""Interval at which a waiting thread checks whether the gate is open."""

WAIT_SECONDS = 60.0
"""Longest time that a thread waits: the main thread, which repairs, may wait for a call that this thread has
made to JAX, and other processes may hold up the repair."""


def close() -> None:
    """Make all other threads wait for `reopen` when they ask for a back end; they fail after `WAIT_SECONDS`.

    Private API: `jax._src.xla_bridge.backends` (jax 0.12.0.1), which every public way to a back end calls, and
    which starts back ends. Without it no thread waits, and a repair fails if a thread computes meanwhile.
    """
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    original = _original(bridge)
    if original is None:
        return
    main, repairing = threading.main_thread(), threading.get_ident()

    @functools.wraps(original)
    def backends() -> Any:
        if threading.get_ident() != repairing:
            until = time.monotonic() + WAIT_SECONDS
            while bridge.backends is not original and main.is_alive():
                if time.monotonic() > until:
                    raise RuntimeError(
                        "JAX's back end is down: the processes are being brought in step again. "
                        f"Start this thread's computation anew when they are: {command('status')}"
                    )
                time.sleep(LOOK_SECONDS)
        return original()

    bridge.backends = backends


def start() -> None:
    """Start the back ends past JAX's caches: a waiting thread has asked for the cached result already."""
    import jax

    original = _original(sys.modules.get("jax._src.xla_bridge"))
    (original or jax.devices)()


def reopen() -> None:
    """Let the waiting threads go on."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    original = _original(bridge)
    if original is not None:
        bridge.backends = original


def _original(bridge: Any) -> Callable[[], Any] | None:
    """Return JAX's own function, also if the gate is closed already."""
    found = getattr(bridge, "backends", None)
    return getattr(found, "__wrapped__", found)
