"""Collection of a back end that nothing uses any more; the back end and its devices refer to each other."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Collection, Sequence
from typing import Any

Weak = Sequence[weakref.ref[Any]] | None
"""References that keep nothing alive; None where one of the objects allows none."""


def prepare(clients: Collection[Any]) -> Weak:
    """Put back ends that will be released into the garbage collector's young generation."""
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
