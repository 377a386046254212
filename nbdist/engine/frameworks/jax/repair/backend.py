"""Exchange of JAX's back ends and coordination service for new ones, while the process lives on.

A process closes the gate, leaves the service, joins the next one with all others, starts the back ends, reopens
the gate, and frees the old back ends. At the closed gate, threads of the user's that need a back end wait.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import gc
import threading
import time
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from nbdist.engine.frameworks.jax import private
from nbdist.spelling import command

NO_STATUS = "bad_cast"
"""Part of jaxlib's error when it cannot convert the argument of a callback."""


def leave() -> None:
    """Leave JAX's coordination service, even one that does not answer any more."""
    import jax

    try:
        jax.distributed.shutdown()
    except RuntimeError:
        state = private.GLOBAL_STATE.get()
        if state is not None:
            state.client = None  # it refuses to be shut down, and JAX keeps it
            jax.distributed.shutdown()  # shuts down the rest


def join(arguments: Mapping[str, Any]) -> None:
    """Join a coordination service, and wait for the other processes.

    Args:
      arguments: The arguments of `jax.distributed.initialize`.

    Raises:
      RuntimeError: The others did not come in time.
    """
    import jax

    try:
        with made_with(shutdown_on_destruction=False, missed_heartbeat_callback=_ignore):
            jax.distributed.initialize(**arguments)
    except RuntimeError as error:
        if NO_STATUS not in str(error):
            raise
        within = arguments["initialization_timeout"]
        raise RuntimeError(f"the other processes did not arrive within {within} s") from error


@contextlib.contextmanager
def made_with(**options: Any) -> Iterator[None]:
    """Make JAX create its client of a service with these options, within the context.

    `shutdown_on_destruction=False`: leaving a service sends it no request, which it may not answer any more.
    `missed_heartbeat_callback`: a client that cannot connect raises an error; by default it ends its process
    (SIGABRT). jaxlib cannot convert the argument of this callback, and raises that as an error.
    """
    make: Any = private.MAKE_CLIENT.get()
    signature = getattr(make, "__doc__", None) or ""
    known = {name: value for name, value in options.items() if name in signature}
    if not known:
        yield
        return
    private.MAKE_CLIENT.set(functools.partial(make, **known))
    try:
        yield
    finally:
        private.MAKE_CLIENT.set(make)


def leaves_without_asking() -> contextlib.AbstractContextManager[None]:
    """Return a context in which JAX joins a service so that leaving it sends no request."""
    return made_with(shutdown_on_destruction=False)


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
    """
    original = _original()
    if original is None:
        return
    main, repairing = threading.main_thread(), threading.get_ident()

    @functools.wraps(original)
    def backends() -> Any:
        if threading.get_ident() != repairing:
            until = time.monotonic() + WAIT_SECONDS
            while private.BACKENDS.get() is not original and main.is_alive():
                if time.monotonic() > until:
                    raise RuntimeError(
                        "JAX's back end is down: the processes are being brought in step again. "
                        f"Start this thread's computation anew when they are: {command('status')}"
                    )
                time.sleep(LOOK_SECONDS)
        return original()

    private.BACKENDS.set(backends)


def start() -> None:
    """Start the back ends past JAX's caches: a waiting thread has asked for the cached result already."""
    import jax

    (_original() or jax.devices)()


def reopen() -> None:
    """Let the waiting threads go on."""
    original = _original()
    if original is not None:
        private.BACKENDS.set(original)


def _original() -> Callable[[], Any] | None:
    """Return JAX's own function, also if the gate is closed already."""
    found = private.BACKENDS.get()
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
