"""A gate before JAX's back ends: while they are down for a repair, threads of the user's that need one wait.

A thread that computes would start a back end of its own as soon as the old one is gone. JAX then refuses to join
the others (`jax.distributed.initialize() must be called before any JAX calls`), in every further repair as well.
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
"""How often a thread looks whether the back end is up again."""

WAIT_SECONDS = 60.0
"""How long a thread waits; the others may be in the way of a repair, and the main thread waits for what a thread
has asked JAX for."""


def close() -> None:
    """Has all threads but this one wait where they ask for a back end, until `reopen`; after a while they fail.

    Private API: `jax._src.xla_bridge.backends` (jax 0.12.0.1), through which every public way to a back end goes,
    and which starts them. Where it is gone nobody waits, and the repair fails while a thread computes.
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
    """Starts the back ends, past what JAX keeps of them: a thread that waits has asked for that already."""
    import jax

    original = _original(sys.modules.get("jax._src.xla_bridge"))
    (original or jax.devices)()


def reopen() -> None:
    """Lets all threads on."""
    bridge: Any = sys.modules.get("jax._src.xla_bridge")
    original = _original(bridge)
    if original is not None:
        bridge.backends = original


def _original(bridge: Any) -> Callable[[], Any] | None:
    """JAX's own function, also where the gate is closed already."""
    found = getattr(bridge, "backends", None)
    return getattr(found, "__wrapped__", found)
