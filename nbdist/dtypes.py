"""NumPy's types by name.

Source: imports nothing outside the standard library at module level.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def dtype_name(dtype: Any) -> Any:
    """Return the name of a dtype as JSON; `dtype_named` reads it."""
    if dtype.names is not None:
        return dtype.descr
    # A dtype's name omits the byte order; its `str` does not know the types of ml_dtypes.
    return dtype.name if is_named(dtype.name, dtype) else dtype.str


def is_named(name: Any, dtype: Any) -> bool:
    """Return whether `dtype_named` gives this dtype for that name."""
    try:
        return bool(dtype_named(name) == dtype)
    except (TypeError, ValueError, AttributeError, ImportError):
        return False


def dtype_named(name: Any) -> Any:
    """Return the NumPy dtype of that name, also for types of ml_dtypes (`bfloat16`, `float8_e4m3fn`)."""
    import numpy

    if not isinstance(name, str):
        return numpy.dtype([_field(entry) for entry in name])
    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))


def _field(entry: Sequence[Any]) -> tuple[Any, ...]:
    name, kind, *shape = entry
    read = kind if isinstance(kind, str) else [_field(inner) for inner in kind]
    return (name, read, *(tuple(size) for size in shape))
