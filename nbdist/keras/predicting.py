"""Predictions that every process holds whole."""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Callable
from typing import Any

import keras
import numpy as np

from nbdist.errors import InputError
from nbdist.keras.together import Group, announce, group

Forward = Callable[..., Any]

_forwards: weakref.WeakKeyDictionary[Any, tuple[Any, Forward]] = weakref.WeakKeyDictionary()
"""Compiled functions by model, with the sharding of their input; compiling one anew takes longer than it runs."""


def predict(model: Any, x: Any, *, batch_size: int = 32) -> Any:
    """The output of a model, whole on every process; every process calls this with all rows.

    Equal to `model.predict` in a single process. The rows are split over the mesh as in training; a last batch
    that does not divide is filled up, and what was filled in is cut off again.

    Args:
      model: A built `keras.Model`.
      x: An array, or a tree of arrays, with the same rows on every process.
      batch_size: Rows of all processes in one step; rounded up to what the mesh divides.

    Returns:
      NumPy arrays with one row for each of `x`, in its structure of the model's output.

    Raises:
      InputError: The model is not built, or `x` holds no arrays of equal length.
      AgreementError: Another process does not call this, or with another number of rows.
    """
    found = group()
    if found is None:
        return model.predict(x, batch_size=batch_size, verbose=0)
    rows = _rows(x)
    announce("predict", rows=rows)
    if not model.built:
        raise InputError("predict needs a built model: give it an Input, or train it first.")
    distribution = keras.distribution.distribution()
    places = distribution.device_mesh.shape[
        list(distribution.device_mesh.axis_names).index(distribution.batch_dim_name)
    ]
    size = -(-min(batch_size, rows) // places) * places
    forward, put = _forward(model, distribution, found)
    state = [
        [v.value for v in model.trainable_variables],
        [v.value for v in model.non_trainable_variables],
    ]
    outputs = []
    for start in range(0, rows, size):
        batch = keras.tree.map_structure(lambda a: _padded(a, start, size), x)  # noqa: B023
        output = forward(*state, keras.tree.map_structure(put, batch))
        kept = min(size, rows - start)
        outputs.append(keras.tree.map_structure(lambda o: np.asarray(o)[:kept], output))  # noqa: B023
    return keras.tree.map_structure(lambda *parts: np.concatenate(parts), *outputs)


def _rows(x: Any) -> int:
    sizes = {np.shape(leaf)[0] if np.ndim(leaf) else None for leaf in keras.tree.flatten(x)}
    if len(sizes) != 1 or None in sizes or 0 in sizes:
        raise InputError("predict needs arrays of equal length, with at least one row.")
    return int(sizes.pop() or 0)


def _padded(array: Any, start: int, size: int) -> np.ndarray[Any, Any]:
    """Rows from `start` on, `size` of them; the last is repeated where there are not so many."""
    part = np.asarray(array[start : start + size])
    missing = size - len(part)
    return np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part


def _forward(model: Any, distribution: Any, found: Group) -> tuple[Forward, Callable[[Any], Any]]:
    """The compiled model, and what spreads rows over the mesh."""
    import jax
    from jax.sharding import NamedSharding, PartitionSpec

    split = NamedSharding(found.mesh, PartitionSpec(distribution.batch_dim_name))

    def put(array: Any) -> Any:
        return jax.make_array_from_callback(array.shape, split, lambda index: array[index])

    known = _forwards.get(model)
    if known is not None and known[0] == split:
        return known[1], put
    # The dictionary must not keep the model alive through its own value.
    reference = weakref.ref(model)
    options = {"training": False} if "training" in _parameters(model.call) else {}

    def call(trainable: Any, others: Any, x: Any) -> Any:
        output, _ = reference().stateless_call(trainable, others, x, **options)  # type: ignore[union-attr]
        return output

    forward = jax.jit(call, out_shardings=NamedSharding(found.mesh, PartitionSpec()))
    _forwards[model] = (split, forward)
    return forward, put


def _parameters(function: Any) -> set[str]:
    return set(inspect.signature(function).parameters)
