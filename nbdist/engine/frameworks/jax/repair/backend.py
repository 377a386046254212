"""Exchange of JAX's back ends and coordination service for new ones, while the process lives on.

A process closes the gate, leaves the service, joins the next one with all others, starts the back ends, reopens
the gate, and frees the old back ends. At the gate the user's threads wait that need a back end.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import sys
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from nbdist.spelling import command

NO_STATUS = "bad_cast"
"""Part of jaxlib's error when it cannot convert the argument of a callback."""


def leave() -> None:
    """Leave JAX's coordination service, even one that does not answer any more.

    Private API: `jax._src.distributed.global_state` with `client` (jax 0.10.0 to 0.12.0.1). A client that has
    failed refuses to be shut down, and JAX keeps it. Without the private name, JAX then refuses to join another
    service.
    """
    import jax

    try:
        jax.distributed.shutdown()
    except RuntimeError:
        state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
        if state is not None:
            state.client = None
            jax.distributed.shutdown()  # shuts down the rest


def client() -> Any | None:
    """Return JAX's client of the service that this process has joined; None if it has joined none.

    Private API: `jax._src.distributed.global_state.client` (jax 0.10.0 to 0.12.0.1). Without it, libraries that
    keep the client themselves, as Orbax does, can save nothing after a repair.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    return getattr(state, "client", None)


def join(arguments: Mapping[str, Any]) -> None:
    """Join a coordination service, and wait for the other processes.

    Args:
      arguments: The arguments of `jax.distributed.initialize`.

    Raises:
      RuntimeError: The others did not come in time.
    """
    import jax

    try:
        with client_with(shutdown_on_destruction=False, missed_heartbeat_callback=_ignore):
            jax.distributed.initialize(**arguments)
    except RuntimeError as error:
        if NO_STATUS not in str(error):
            raise
        within = arguments["initialization_timeout"]
        raise RuntimeError(f"the other processes did not arrive within {within} s") from error


@contextlib.contextmanager
def client_with(**options: Any) -> Iterator[None]:
    """Make JAX create its client of a service with these options, within the context.

    `shutdown_on_destruction=False`: leaving a service sends it no request, which it may not answer any more.
    `missed_heartbeat_callback`: a client that cannot connect raises an error; by default it ends its process
    (SIGABRT). jaxlib cannot convert the argument of this callback, and raises that as an error.

    Private API: `jaxlib._jax.get_distributed_runtime_client` and these arguments (jaxlib 0.10.0 to 0.12.0.1).
    Without them a process ends if the others do not come, and waits for its service when it leaves one that has
    ended.
    """
    jaxlib: Any = getattr(sys.modules.get("jax._src.distributed"), "_jax", None)
    make: Any = getattr(jaxlib, "get_distributed_runtime_client", None)
    signature = getattr(make, "__doc__", None) or ""
    known = {name: value for name, value in options.items() if name in signature}
    if not known:
        yield
        return
    jaxlib.get_distributed_runtime_client = functools.partial(make, **known)
    try:
        yield
    finally:
        jaxlib.get_distributed_runtime_client = make


def leaves_without_asking() -> contextlib.AbstractContextManager[None]:
    """Return a context in which JAX joins a service that it will leave without sending it a request."""
    return client_with(shutdown_on_destruction=False)


def _ignore(*status: object) -> None:
    """Ignore a failure: a jaxlib that can convert it calls this, and connecting raises it as well."""


LOOK_SECONDS = 0.01
"""Interval at which a waiting thread checks whether the gate is open."""

WAIT_SECONDS = 60.0
"""Longest time that a thread waits at the gate.

The main thread, which repairs, may wait for a call that this thread has made to JAX, and other processes may hold
up the repair.
"""


def close() -> None:
    """Make all other threads wait for `reopen` when they ask for a back end; they fail after `WAIT_SECONDS`.

    A thread that computes would start a new back end as soon as the old one is gone. JAX then refuses to join the
    other processes (`jax.distributed.initialize() must be called before any JAX calls`), in this repair and in
    every later one.

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


Weak = Sequence[weakref.ref[Any]] | None
"""References that keep nothing alive; None where one of the objects allows none."""


def prepare(clients: Collection[Any]) -> Weak:
    """Put back ends that will be released into the garbage collector's young generation.

    Only the collector frees a back end, since the back end and its devices refer to each other.
    """
    _make_young(_circle(clients))
    try:
        return [weakref.ref(client) for client in clients]
    except TypeError:
        return None


def collect(prepared: Weak) -> None:
    """Free the prepared back ends, if nothing else refers to them any more.

    A collection of the whole heap takes a tenth of a second of every process. It runs only if a collection of
    the young generation has not freed them.
    """
    gc.collect(0)
    if prepared is None or not all(reference() is None for reference in prepared):
        gc.collect()


def _circle(clients: Collection[Any]) -> dict[int, Any]:
    """Return the back ends, and the objects of jaxlib that they lead to (devices, memories), by id."""
    found = {id(one): one for one in clients}
    new = list(clients)
    while new:
        new = [
            one
            for one in gc.get_referents(*new)
            if id(one) not in found
            and not issubclass(type(one), type)
            and type(one).__module__.partition(".")[0] == "jaxlib"
        ]
        found.update((id(one), one) for one in new)
    return found


def _make_young(objects: dict[int, Any]) -> None:
    """Move objects into the garbage collector's young generation, which it can collect without the others.

    `PyObject_GC_Track` puts an object there (https://docs.python.org/3/c-api/gcsupport.html).
    """
    for address, one in objects.items():
        if gc.is_tracked(one):
            ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.c_void_p(address))
            ctypes.pythonapi.PyObject_GC_Track(ctypes.c_void_p(address))
