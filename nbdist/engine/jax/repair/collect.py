"""Freeing a back end that nothing uses any more: it and its devices refer to each other."""

from __future__ import annotations

import ctypes
import gc
import weakref
from typing import Any


def collect(clients: list[Any]) -> None:
    """Frees the back ends that only they themselves refer to.

    A collection of all that there is takes a tenth of a second of every process. Here the garbage collector looks
    first at what was made lately, among which these are put; at all else only where something else is in the way.

    Args:
      clients: Back ends; emptied, since it refers to them.
    """
    gone = _weak(clients)
    _make_young(_circle(clients))
    clients.clear()
    gc.collect(0)
    if gone is None or not all(reference() is None for reference in gone):
        gc.collect()


def _weak(clients: list[Any]) -> list[weakref.ref[Any]] | None:
    """References that do not keep them alive; None where one allows none."""
    try:
        return [weakref.ref(client) for client in clients]
    except TypeError:
        return None


def _circle(clients: list[Any]) -> dict[int, Any]:
    """What they refer to and is of the same library, by id: devices and memories."""
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
    """Has the garbage collector take these as made just now: it then finds them without looking at all others.

    `PyObject_GC_Track` puts an object among the youngest (https://docs.python.org/3/c-api/gcsupport.html).
    """
    for address, one in objects.items():
        if gc.is_tracked(one):
            ctypes.pythonapi.PyObject_GC_UnTrack(ctypes.c_void_p(address))
            ctypes.pythonapi.PyObject_GC_Track(ctypes.c_void_p(address))
