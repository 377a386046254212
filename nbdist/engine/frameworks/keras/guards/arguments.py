"""Facts about a call of Keras before it begins: rows, batches, steps and written paths, and the places of batches.

The facts are read from the arguments of `fit`, `evaluate`, `predict` and `save`. A fact is None if it is not known
beforehand, as for a generator. `BatchPlaces` reads the distribution that is set: which processes take part, and
which sizes of steps they can take.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class RowsPerStep:
    """The rows that this process feeds in each step, each number None where not known beforehand.

    `rows` is the number of all rows, `batch` the rows of a full step, `last` the rows of a smaller last step (0:
    there is none), `steps` the steps of one epoch.
    """

    rows: int | None
    batch: int | None
    last: int | None
    steps: int | None


MOST_ROWS = 1000
"""The most rows of an array that are compared between processes."""


def is_tf_dataset(data: Any) -> bool:
    """Return whether this is a `tf.data.Dataset`; do not import TensorFlow for this test."""
    tensorflow = sys.modules.get("tensorflow")
    return tensorflow is not None and isinstance(data, tensorflow.data.Dataset)


def feed(data: Any, *, batch_size: int | None, steps: int | None, epochs: int = 1) -> RowsPerStep:
    """Return how Keras divides this input into steps.

    Args:
      data: The argument `x`, or other data in its place.
      batch_size: The argument, as given.
      steps: `steps_per_epoch` or the corresponding argument, as given.
      epochs: The number of epochs; with `steps`, each epoch begins at the row where the one before ended.
    """
    rows = row_count(data)
    if rows is None:
        found = _known_length(data)
        given = [n for n in (steps, found) if n is not None]
        return RowsPerStep(None, None, None, min(given) if given else None)
    # The same as Keras' ArrayDataAdapter.
    batch = batch_size or (math.ceil(rows / steps) if steps else 32)
    whole = math.ceil(rows / batch)
    used = min(steps, whole) if steps else whole
    last = rows % batch
    if last and used * epochs < whole:
        last = 0  # never reached
    if rows < batch:
        batch, last = rows, 0
    return RowsPerStep(rows, batch, last, used)


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


@dataclass(frozen=True, slots=True)
class BatchPlaces:
    """The batch axis of the distribution that is set, as this process sees it.

    `kind` is the name of the distribution's class. `axis` is the mesh axis that rows are split over, with `count`
    places; this process has devices on `own` of them. `processes` are those with devices in the mesh, in order.
    `text` is the mesh, such as `batch=4 × model=2`.
    """

    kind: str
    text: str
    axis: str
    count: int
    own: int
    processes: tuple[int, ...]

    @classmethod
    def of(cls, distribution: Any, process_id: int) -> BatchPlaces:
        """Return the places of a `keras.distribution.Distribution` on JAX."""
        mesh = distribution.device_mesh
        devices = mesh.backend_mesh.devices
        axis = list(mesh.axis_names).index(distribution.batch_dim_name)
        own = {
            index // _stride(devices.shape, axis) % devices.shape[axis]
            for index, device in enumerate(devices.flat)
            if device.process_index == process_id
        }
        sizes = zip(mesh.axis_names, devices.shape, strict=True)
        return cls(
            kind=type(distribution).__name__,
            text=" × ".join(f"{name}={size}" for name, size in sizes),
            axis=distribution.batch_dim_name,
            count=int(devices.shape[axis]),
            own=len(own),
            processes=tuple(sorted({device.process_index for device in devices.flat})),
        )

    @property
    def times(self) -> int:
        """The number of shares that the rows of a step have; each process gives one share."""
        return self.count // self.own if self.own else 1

    def rows(self, local: int | None) -> int | None:
        """Return the rows of all processes in a step to which this process gives `local` rows."""
        return None if local is None or not self.own else local * self.count // self.own

    def bad_sizes(self, feed: RowsPerStep) -> list[int]:
        """Return the sizes of steps that do not divide over this process's places."""
        sizes = [size for size in (feed.batch, feed.last) if size]
        return [size for size in sizes if self.own and size % self.own]


def _stride(shape: tuple[int, ...], axis: int) -> int:
    stride = 1
    for size in shape[axis + 1 :]:
        stride *= size
    return stride


def run_ahead_too_far(distribution: Any) -> bool:
    """Return whether steps, if not waited for, would run too far ahead of the devices and end in a deadlock.

    Seen on CPU where a process has several devices (jaxlib 0.10.2, plain JAX without nbdist, two processes of two
    devices): 16 steps with a collective complete, 64 never do. With one device in each process, 300 complete. The
    likely reason: one device may have a limited number of computations in flight, and steps whose collectives need
    the other device use up that number.
    """
    import jax

    devices = distribution.device_mesh.backend_mesh.devices.flat
    own = [device for device in devices if device.process_index == jax.process_index()]
    return len(own) > 1 and own[0].platform == "cpu"


def with_waiting(callbacks: Any) -> Any:
    """Return the argument `callbacks` with one added that makes Keras wait for the results of each step.

    Keras gives the results to callbacks on other threads and goes on, unless a callback has methods for steps.
    """
    if hasattr(callbacks, "callbacks"):
        return callbacks  # a `CallbackList`, which the caller has made
    return [*callbacks_in(callbacks), _waiting()()]


@functools.cache
def _waiting() -> type[Any]:
    import keras

    class WaitsForEachStep(keras.callbacks.Callback):
        """A callback that makes Keras wait: it has methods that Keras calls at each step, and they do nothing."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing; `logs` are numbers by now."""

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

    return WaitsForEachStep
