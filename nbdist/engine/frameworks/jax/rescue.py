"""What a process holds, saved by a thread of it before it is given up: its main thread answers nobody any more."""

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
    """Writes every named array whose values are there to a file that outlives the session.

    Arrays of JAX are saved piece by piece, from wherever they are reached: `w[0:4, 0:2]` is one of `w`, by its
    bounds in the whole. Arrays of NumPy are saved that have a name of their own. `numpy.load` reads the file.
    What is still being computed is left out. The file is not there before it is whole.
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
        except Exception:  # noqa: BLE001 - deleted, lost, or not ready: named
            left_out.append(path)
    folder = Path(tempfile.mkdtemp(prefix=f"nbdist-rescued-{os.getpid()}-"))
    file, part = folder / f"process-{process_id}.npz", folder / "part.npz"
    numpy.savez(part, **pieces)
    part.chmod(0o600)
    part.rename(file)  # whole, or not there: the process may be ended meanwhile
    nbytes = sum(piece.nbytes for piece in pieces.values())
    return Rescued(path=str(file), arrays=len(pieces), nbytes=nbytes, left_out=tuple(left_out))


def _pieces(path: str, array: Any) -> dict[str, Any]:
    """The pieces of one array by name, none of which is waited for.

    Raises:
      ValueError: It is being computed, or has no values.
    """
    import numpy

    if type(array) is numpy.ndarray:
        return {path: array}
    if array.is_deleted():  # asked whether it is ready, it ends the process (JAX 0.10.0)
        raise ValueError(f"{path} has no values")
    if not array.is_ready():
        raise ValueError(f"{path} is being computed")
    found = {}
    for piece in unique_pieces(array):
        name = ", ".join(f"{start}:{stop}" for start, stop in piece.bounds)
        found[f"{path}[{name}]"] = piece.read()
    return found
