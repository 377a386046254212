"""NumPy's types by name.

Source: imports nothing outside the standard library at module level.
"""

from __future__ import annotations

from typing import Any


def dtype_named(name: Any) -> Any:
    """The NumPy dtype of that name, ml_dtypes' (`bfloat16`, `float8_e4m3fn`) included."""
    import numpy

    if not isinstance(name, str):
        return numpy.dtype([tuple(field) for field in name])
    try:
        return numpy.dtype(name)
    except TypeError:
        import ml_dtypes

        return numpy.dtype(getattr(ml_dtypes, name))
