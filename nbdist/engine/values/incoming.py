"""Values that a kernel is sending to this process; none has its name before all are here whole."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.dtypes import dtype_named
from nbdist.engine import checkup
from nbdist.engine.values.arrays import Bounds, shape_of, slices
from nbdist.engine.values.packing import unpacked
from nbdist.engine.values.window import Window
from nbdist.errors import SessionError

Place = Callable[[Any], tuple[list[list[list[int]]], Callable[[list[Any]], Any]]]
"""Answers, for an array's shape, which parts of it belong here and how to make the whole of them."""


class Incoming:
    """Held from the first message of a kernel until the values have their names, or the kernel has given up.

    Args:
      arrays: `dtype` and `shape` of each array that is sent in parts.
      place: How an array is divided over the processes; None: each process gets it whole, as NumPy.
      window: Memory shared with the kernel; None where there is none.
    """

    def __init__(
        self,
        arrays: Sequence[dict[str, Any]],
        *,
        place: Place | None,
        window: Window | None,
    ) -> None:
        self._window = window
        self._dtypes: list[Any] = []
        self._bounds: list[list[list[list[int]]]] = []
        self._parts: list[list[Any]] = []
        self._finish: list[Callable[[list[Any]], Any]] = []
        self._ready: dict[str, Any] | None = None
        for array in arrays:
            dtype, shape = dtype_named(array["dtype"]), tuple(array["shape"])
            bounds, finish = _whole(shape) if place is None else place((dtype, shape))
            self._dtypes.append(dtype)
            self._bounds.append(bounds)
            self._finish.append(finish)
            self._parts.append([])

    def describe(self) -> dict[str, Any]:
        """Which parts of each array are wanted.

        Also how much memory that takes here, how much is available, and to which group of processes a limit
        applies.
        """
        needed = sum(
            dtype.itemsize * math.prod(shape_of(one))
            for dtype, bounds in zip(self._dtypes, self._bounds, strict=True)
            for one in bounds
        )
        return {
            "wanted": self._bounds,
            "shared": self._window is not None,
            "needed": needed,
            "available": checkup.memory()["available"],
            "group": checkup.group(),
        }

    def _room(self, number: int) -> list[Any]:
        """The parts of an array; made when the kernel has seen that there is room for them."""
        import numpy

        if not self._parts[number]:
            self._parts[number] = [
                numpy.empty(shape_of(one), self._dtypes[number]) for one in self._bounds[number]
            ]
        return self._parts[number]

    def put(self, boxes: Sequence[tuple[int, int, Bounds]], at: int | None, data: Any) -> None:
        """Takes parts of arrays, which lie one behind the other.

        Args:
          boxes: The number of the array, that of the part of it that is here, and bounds in the whole array.
          at: Where they are in the shared memory; None: they are in `data`.
          data: Their bytes.
        """
        import numpy

        offset = at or 0
        for number, part, bounds in boxes:
            target = self._room(number)[part][slices(bounds, self._bounds[number][part])]
            if at is not None and self._window is not None:
                source = self._window.array(offset, target.dtype, target.shape)
            else:
                source = numpy.ndarray(target.shape, target.dtype, data, offset=offset)
            target[...] = source
            offset += source.nbytes

    def make(self, structure: Any) -> None:
        """Makes the values; they do not have their names yet.

        Args:
          structure: The values by name, pickled, with numbers in place of arrays.

        Raises:
          Exception: Whatever unpickling raises, such as where a module is not installed here.
        """
        made = [finish(self._room(number)) for number, finish in enumerate(self._finish)]
        self._parts = []
        self._ready = unpacked(structure, made.__getitem__)

    def values(self) -> dict[str, Any]:
        """The values by name.

        Raises:
          SessionError: They have not all come.
        """
        if self._ready is None:
            raise SessionError("What was pushed has not come whole; nothing was changed.")
        return self._ready

    def close(self) -> None:
        """Lets go of all it holds."""
        self._parts, self._ready = [], None
        if self._window is not None:
            self._window.close()


def _whole(shape: tuple[int, ...]) -> tuple[list[list[list[int]]], Callable[[list[Any]], Any]]:
    return [[[0, size] for size in shape]], lambda parts: parts[0]
