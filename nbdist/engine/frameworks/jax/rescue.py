"""Rescue of a process's arrays to a file, by one of its threads, once its main thread no longer answers."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from nbdist.contract.iopub import Rescued
from nbdist.engine.frameworks.jax.arrays import unique_pieces
from nbdist.engine.frameworks.jax.paths import array_paths


def rescue(namespace: dict[str, object], process_id: int) -> Rescued:
    """Write every named array that has values to a file that outlives the session.

    JAX arrays are saved piece by piece under all paths that reach them: `w[0:4, 0:2]` is a piece of `w`, named
    by its bounds in the whole array. NumPy arrays are saved if they have a name of their own. Arrays that are
    still being computed are left out. `numpy.load` reads the file, which appears only when it is complete.
    """
    import numpy

    pieces: dict[str, Any] = {}
    left_out: list[str] = []
    jax_array = getattr(sys.modules.get("jax"), "Array", None)
    named = {
        name: value
        for name, value in list(namespace.items())
        if type(value) is numpy.ndarray and not name.startswith("_")
    }
    if jax_array is not None:
        named |= array_paths(namespace, jax_array)
    for path, array in named.items():
        try:
            pieces |= _pieces(path, array)
        except Exception:  # noqa: BLE001 - deleted, lost, or not ready: named in `left_out`
            left_out.append(path)
    folder = Path(tempfile.mkdtemp(prefix=f"nbdist-rescued-{os.getpid()}-"))
    file, part = folder / f"process-{process_id}.npz", folder / "part.npz"
    numpy.savez(part, **pieces)
    part.chmod(0o600)
    part.rename(file)  # complete or absent: the process may be ended at any moment
    nbytes = sum(piece.nbytes for piece in pieces.values())
    return Rescued(path=str(file), arrays=len(pieces), nbytes=nbytes, left_out=tuple(left_out))


def _pieces(path: str, array: Any) -> dict[str, Any]:
    """Return the pieces of one array by name, without waiting for any.

    Raises:
      ValueError: The array is being computed, or has no values.
    """
    import numpy

    if type(array) is numpy.ndarray:
        return {path: array}
    if array.is_deleted():  # `is_ready` of a deleted array ends the process (JAX 0.10.0)
        raise ValueError(f"{path} has no values")
    if not array.is_ready():
        raise ValueError(f"{path} is being computed")
    found = {}
    for piece in unique_pieces(array):
        name = ", ".join(f"{start}:{stop}" for start, stop in piece.bounds)
        found[f"{path}[{name}]"] = piece.read()
    return found
