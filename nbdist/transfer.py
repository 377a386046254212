"""Values between the notebook and the processes: arrays as raw bytes, put together here."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from nbdist.dtypes import dtype_named
from nbdist.engine.transfer import bytes_of
from nbdist.errors import ArrayError

LARGE_BYTES = 1 << 30
"""An array larger than this in whole is pulled only when the person says so: 1 GB."""


def pack(values: Mapping[str, Any]) -> tuple[list[dict[str, Any]], list[bytes]]:
    """Describes values for `nbdist.engine.calls.set_names`, with one buffer each.

    Raises:
      ArrayError: A value that cannot be pickled; nothing has been sent.
    """
    entries: list[dict[str, Any]] = []
    buffers: list[bytes] = []
    for name, value in values.items():
        entry: dict[str, Any] = {"name": name, "buffer": len(buffers)}
        if isinstance(value, np.ndarray) and value.dtype != object:
            dtype = value.dtype.name if value.dtype.names is None else value.dtype.descr
            entry |= {"kind": "array", "dtype": dtype, "shape": list(value.shape)}
            buffers.append(bytes_of(np.ascontiguousarray(value)))
        else:
            entry["kind"] = "pickle"
            buffers.append(_pickled(name, value))
        entries.append(entry)
    return entries, buffers


def _pickled(name: str, value: object) -> bytes:
    try:
        return pickle.dumps(value, protocol=5)
    except Exception as error:
        raise ArrayError(
            f"{name!r} is a {type(value).__name__} and cannot be sent to the processes "
            f"({type(error).__name__}: {error}). Make it in a %%dist cell instead."
        ) from error


class Assembly:
    """One whole array out of the pieces that processes send.

    Args:
      described: A process's description (see `nbdist.engine.transfer.offer`).
      expression: How it was named, for error texts.
    """

    def __init__(self, described: Mapping[str, Any], expression: str) -> None:
        self._expression = expression
        self._dtype = dtype_named(described["dtype"])
        self._array = np.empty(tuple(described["shape"]), self._dtype)
        self._filled = 0

    def add(self, pieces: Sequence[Sequence[Sequence[int]]], buffers: Sequence[Any]) -> None:
        """Puts pieces in place; `pieces` are half-open bounds, one pair for each dimension."""
        for bounds, data in zip(pieces, buffers, strict=True):
            where = tuple(slice(start, stop) for start, stop in bounds)
            shape = tuple(stop - start for start, stop in bounds)
            self._array[where] = np.frombuffer(data, self._dtype).reshape(shape)
            self._filled += int(np.prod(shape, dtype=np.int64))

    def whole(self) -> np.ndarray[Any, Any]:
        """The array.

        Raises:
          ArrayError: Some of its pieces lie on processes that did not answer.
        """
        if self._filled != self._array.size:
            raise ArrayError(
                f"{self._expression!r}: only {self._filled} of {self._array.size} elements are on the "
                "processes that were asked; the rest is on processes that are gone or not targets."
            )
        return self._array
