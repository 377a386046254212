"""Freeing a back end that nothing uses any more: it and its devices refer to each other."""

from __future__ import annotations

import ctypes
import gc
import weakref
from collections.abc import Collection, Sequence
from typing import Any

Weak = Sequence[weakref.ref[Any]] | None
"""References that keep nothing alive; None where one of the objects allows none."""


def prepare(clients: Collection[Any]) -> Weak:
    """Has the garbage collector find these back ends, which are about to be let go, without a look at all else."""
    _make_young(_circle(clients))
    try:
        return [weakref.ref(client) for client in clients]
    except TypeError:
        return None


def collect(prepared: Weak) -> None:
    """Frees what was prepared, where only it refers to itself by now.

    A collection of all that there is takes a tenth of a second of every process: it comes only where something
    else is in the way.
    """
    gc.collect(0)
    if prepared is None or not all(reference() is None for reference in prepared):
        gc.collect()


def _circle(clients: Collection[Any]) -> dict[int, Any]:
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
