"""Values of typed PRNG keys, which processes compare so that their random numbers are equal."""

from __future__ import annotations

import hashlib
import sys
import time
from typing import Any

MOST_KEYS = 256
MOST_BYTES = 1 << 16
"""Most keys that are read, and most bytes of one array of keys; a larger array is left out."""

READY_SECONDS = 1.0
"""Time limit for all keys together that are still being computed; keys that are late are left out."""


class Keys:
    """The keys found in one check.

    Attributes:
      found: Text by path, such as `"(0, 7)"`.
    """

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._key_types: dict[Any, bool] = {}
        self._deadline = time.monotonic() + READY_SECONDS

    def add(self, path: str, array: Any) -> None:
        """Note the value of an array of typed keys; ignore other arrays, and keys in pieces on several processes.

        Copies the values on this process to host memory; runs no collective and no computation.
        """
        dtype = array.dtype
        if dtype not in self._key_types:
            self._key_types[dtype] = is_key_type(dtype)
        if self._key_types[dtype] and len(self.found) < MOST_KEYS:
            data = sys.modules["jax"].random.key_data(array)
            if data.nbytes <= MOST_BYTES and self._is_there(data):
                self.found[path] = _text(data)

    def _is_there(self, data: Any) -> bool:
        if not (data.is_fully_addressable or data.is_fully_replicated):
            return False
        # Copying would wait where no interrupt arrives, and the cell that computes the keys may never end.
        while not data.is_ready():
            if time.monotonic() > self._deadline:
                return False
            time.sleep(0.002)
        return True


def is_key_type(dtype: Any) -> bool:
    """Return whether arrays of a dtype hold typed keys."""
    dtypes = sys.modules["jax"].dtypes
    return bool(dtypes.issubdtype(dtype, dtypes.prng_key))


def _text(data: Any) -> str:
    import numpy

    values = numpy.asarray(data if data.is_fully_addressable else data.addressable_data(0))
    if values.ndim == 1:
        return f"({', '.join(map(str, values.tolist()))})"
    return f"digest {hashlib.sha256(numpy.ascontiguousarray(values)).hexdigest()[:12]}"
