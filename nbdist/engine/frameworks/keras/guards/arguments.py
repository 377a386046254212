"""Facts from the arguments of `fit`, `evaluate`, `predict` and `save` beforehand: rows, batches, steps, paths."""

from __future__ import annotations

import contextlib
import hashlib
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Feed:
    """The rows that this process feeds in each step; None where not known beforehand.

    `rows` is the number of all rows, `batch` the rows of a full step, `last` the rows of a smaller last step (0:
    there is none), `steps` the steps of one epoch.
    """

    rows: int | None
    batch: int | None
    last: int | None
    steps: int | None


MOST_ROWS = 1000
"""The most rows of an array that are compared between processes."""

UNKNOWN = Feed(None, None, None, None)


def is_tf_dataset(data: Any) -> bool:
    """Return whether this is a `tf.data.Dataset`; TensorFlow is not imported for this test."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(data, tensorflow.data.Dataset)


def feed(data: Any, *, batch_size: int | None, steps: int | None, epochs: int = 1) -> Feed:
    """Return how Keras divides this input into steps.

    Args:
      data: The argument `x`, or other data in its place.
      batch_size: The argument, as given.
      steps: `steps_per_epoch` or the corresponding argument, as given.
      epochs: The number of epochs; with `steps`, each epoch goes on where the one before has ended in the rows.
    """
    rows = row_count(data)
    if rows is None:
        found = _known_length(data)
        given = [n for n in (steps, found) if n is not None]
        return Feed(None, None, None, min(given) if given else None)
    # The same as Keras' ArrayDataAdapter.
    batch = batch_size or (math.ceil(rows / steps) if steps else 32)
    whole = math.ceil(rows / batch)
    used = min(steps, whole) if steps else whole
    last = rows % batch
    if last and used * epochs < whole:
        last = 0  # never reached
    if rows < batch:
        batch, last = rows, 0
    return Feed(rows, batch, last, used)


def row_count(data: Any) -> int | None:
    """Return the number of rows of an array or a tree of arrays; None for anything else."""
    if data is None or is_tf_dataset(data):
        return None
    keras = sys.modules["keras"]
    sizes = set()
    for leaf in keras.tree.flatten(data):
        shape = getattr(leaf, "shape", None)
        if leaf is None:
            continue
        if not shape:
            return None
        with contextlib.suppress(TypeError, ValueError):
            sizes.add(int(shape[0]))
    return sizes.pop() if len(sizes) == 1 else None


def rows_digest(data: Any) -> str | None:
    """Return a digest of NumPy arrays, from at most 1,000 evenly spaced rows of each; None for anything else."""
    leaves = [leaf for leaf in sys.modules["keras"].tree.flatten(data) if leaf is not None]
    found = hashlib.blake2b(digest_size=16)
    for leaf in leaves:
        if (
            not isinstance(leaf, sys.modules["numpy"].ndarray)
            or not leaf.ndim
            or leaf.dtype.hasobject
        ):
            return None
        found.update(f"{leaf.dtype} {leaf.shape} ".encode())
        found.update(leaf[:: math.ceil(len(leaf) / MOST_ROWS) or 1].tobytes())
    return found.hexdigest() if leaves else None


def _known_length(data: Any) -> int | None:
    """Return the number of batches of a `tf.data.Dataset` or a `PyDataset`; None if it is not known."""
    if is_tf_dataset(data):
        cardinality = int(data.cardinality())
        return cardinality if cardinality >= 0 else None
    try:
        found = getattr(data, "num_batches", None)
    except NotImplementedError:
        return None
    return found if isinstance(found, int) else None


def split_rows(rows: int | None, validation_split: float) -> tuple[int | None, int | None]:
    """Return the number of rows to train on, and of rows to validate with."""
    if rows is None:
        return None, None
    train = math.floor(rows * (1.0 - validation_split))
    return train, rows - train


def written_paths(method: str, arguments: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the absolute paths of files and folders that the call will write on this process."""
    if method.startswith("save"):
        found = [arguments["filepath"]]
    else:
        found = [_path_of(callback) for callback in callbacks_in(arguments.get("callbacks"))]
    return tuple(
        os.path.realpath(os.fspath(path)) for path in found if isinstance(path, (str, os.PathLike))
    )


def callbacks_in(given: Any) -> Sequence[Any]:
    """Return the callbacks of the argument `callbacks`."""
    inside = getattr(given, "callbacks", given)
    if inside is None:
        return []
    return list(inside) if isinstance(inside, (list, tuple)) else [inside]


def _path_of(callback: Any) -> Any:
    known = sys.modules["keras"].callbacks
    if isinstance(callback, known.ModelCheckpoint):
        return callback.filepath
    if isinstance(callback, known.BackupAndRestore):
        return callback.backup_dir
    return None
