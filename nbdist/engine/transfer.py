"""Values on their way between an engine and the kernel: array data as raw bytes, never pickled."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any

from nbdist.dtypes import dtype_named
from nbdist.errors import ArrayError


def offer(
    value: Any, expression: str, framework: ModuleType, limit_bytes: int
) -> tuple[dict[str, Any], list[Any]]:
    """This process's part of a value, ready to be sent.

    Args:
      value: Any object of the user.
      expression: How it was named, for error texts.
      framework: The module that knows its arrays (`offer_array` answers None for anything else).
      limit_bytes: Arrays larger than this in whole are described, not sent.

    Returns:
      A description and buffers. Its `kind` is `array` (`dtype`, `shape`, `nbytes`, `whole`: whether
      this process has every piece, `pieces`: slices, one buffer each), `too_large` or `pickle`.

    Raises:
      ArrayError: It cannot be sent; the text says why.
    """
    array = framework.offer_array(value, expression, limit_bytes)
    if array is not None:
        return array  # type: ignore[no-any-return]
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(value, numpy.ndarray) and value.dtype != object:
        return _offer_numpy(numpy, value, limit_bytes)
    try:
        return {"kind": "pickle"}, [pickle.dumps(value, protocol=5)]
    except Exception as error:
        raise ArrayError(
            f"{expression!r} is a {type(value).__name__} and cannot be sent to the notebook "
            f"({type(error).__name__}: {error}). Pull an array or plain data out of it."
        ) from error


def _offer_numpy(
    numpy: ModuleType, value: Any, limit_bytes: int
) -> tuple[dict[str, Any], list[Any]]:
    described = {
        "dtype": value.dtype.name if value.dtype.names is None else value.dtype.descr,
        "shape": list(value.shape),
        "nbytes": value.nbytes,
    }
    if value.nbytes > limit_bytes:
        return {"kind": "too_large", **described}, []
    pieces = [[[0, size] for size in value.shape]]
    data = [bytes_of(numpy.ascontiguousarray(value))]
    return {"kind": "array", "whole": True, "pieces": pieces, **described}, data


def bytes_of(array: Any) -> bytes:
    """The bytes of a C-contiguous NumPy array of any dtype, ml_dtypes' included."""
    return array.tobytes()  # type: ignore[no-any-return]


def restore(entry: Mapping[str, Any], buffers: Sequence[Any]) -> Any:
    """A value that the kernel sent; `entry` is one of `nbdist.transfer.pack`'s."""
    data = buffers[entry["buffer"]]
    if entry["kind"] == "pickle":
        # Only ever from the kernel that holds this session's key.
        return pickle.loads(data)
    import numpy

    return numpy.frombuffer(data, dtype=dtype_named(entry["dtype"])).reshape(entry["shape"]).copy()
