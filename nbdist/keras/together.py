"""Work that the processes of the set distribution do together: agreeing, writing once, gathering, predicting.

Checkpoints and saving are built on `group`, `announce`, `all_or_none` and `gathered`; `predict` is for users.
Every process of the group must call each of these, except `group`.
"""

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from nbdist.errors import AgreementError, InputError


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """The processes whose devices are in the mesh of the distribution that is set; the lowest of them writes.

    `mesh` is JAX's. `me` is the number of this process.
    """

    mesh: Any
    processes: tuple[int, ...]
    me: int

    @property
    def writer(self) -> int:
        """The process that writes for all."""
        return self.processes[0]

    @property
    def writes(self) -> bool:
        """Return whether this process writes."""
        return self.me == self.writer


def group() -> ProcessGroup | None:
    """Return the processes of the distribution that is set; None unless it spans several, on the JAX back end."""
    distribution = keras.distribution.distribution()
    if distribution is None or keras.config.backend() != "jax":
        return None
    import jax

    mesh = distribution.device_mesh.backend_mesh
    processes = tuple(sorted({device.process_index for device in mesh.devices.flat}))
    return ProcessGroup(mesh, processes, jax.process_index()) if len(processes) > 1 else None


def announce(function: str, **facts: int | str | None) -> None:
    """Wait until all processes of the distribution are about to call the same function.

    Without nbdist's guards, as in a process that is no engine of nbdist, nothing happens.

    Raises:
      AgreementError: One of the processes is not about to call the function.
    """
    guards = sys.modules.get("nbdist.engine.frameworks.keras.guards")
    watch = guards.guard() if guards is not None else None
    error = watch.helper(f"nbdist.keras.{function}", **facts) if watch is not None else None
    if error is not None:
        raise error


def everywhere(value: int, found: ProcessGroup) -> list[int]:
    """Return the values of all processes of the group, in the order of `processes`; a collective."""
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    devices = sorted(found.mesh.devices.flat, key=lambda device: (device.process_index, device.id))
    first = [next(d for d in devices if d.process_index == process) for process in found.processes]
    mesh = Mesh(np.array(first), ("process",))
    split = NamedSharding(mesh, PartitionSpec("process"))
    mine = np.array([value], np.int32)
    values = jax.make_array_from_process_local_data(split, mine, (len(first),))
    whole = jax.jit(lambda x: x, out_shardings=NamedSharding(mesh, PartitionSpec()))(values)
    return [int(one) for one in np.asarray(whole)]


def all_or_none(what: str, act: Callable[[], None] | None, found: ProcessGroup) -> None:
    """Run `act` on each process that has one, then tell all processes whether it succeeded; a collective.

    Args:
      what: The words for the action, such as "write /data/model.keras".
      act: The action of this process; None if this process only waits for the others.
      found: The group.

    Raises:
      AgreementError: The action failed on another process.
      Exception: The error that `act` raised on this process.
    """
    error: Exception | None = None
    try:
        if act is not None:
            act()
    except Exception as raised:  # noqa: BLE001 - whatever was raised, the others must know first
        error = raised
    failed = everywhere(int(error is not None), found)
    if error is not None:
        raise error
    for process, flag in zip(found.processes, failed, strict=True):
        if flag:
            raise AgreementError(f"process {process} could not {what}; its own error says why.")


def gathered(variables: Sequence[Any], found: ProcessGroup) -> dict[int, np.ndarray[Any, Any]]:
    """Gather the whole values of those variables that lie in pieces on several processes; a collective.

    Returns:
      The values by `id` of the variable; on processes that do not write, no values.
    """
    from jax.experimental import multihost_utils

    values: dict[int, np.ndarray[Any, Any]] = {}
    for variable in variables:
        value = variable.value
        if value.is_fully_replicated or value.is_fully_addressable:
            continue
        whole = multihost_utils.process_allgather(value, tiled=True)
        if found.writes:
            values[id(variable)] = np.asarray(whole)
    return values


Forward = Callable[..., Any]

_forwards: weakref.WeakKeyDictionary[Any, tuple[Any, Forward]] = weakref.WeakKeyDictionary()
"""Compiled functions by model, each with the sharding of its input; compiling one takes longer than running it."""


def predict(model: Any, x: Any, *, batch_size: int = 32) -> Any:
    """Return the output of a model, whole on every process; every process calls this with all rows.

    Equal to `model.predict` in a single process. The rows are split over the mesh as in training; a last batch
    that does not divide is filled up, and what was filled in is cut off again.

    Args:
      model: A built `keras.Model`.
      x: An array, or a tree of arrays, with the same rows on every process.
      batch_size: The rows of all processes in one step; rounded up to a number that divides over the mesh.

    Returns:
      NumPy arrays with one row for each row of `x`, in the structure of the model's output.

    Raises:
      InputError: The model is not built, or `x` holds no arrays of equal length.
      AgreementError: Another process does not call this function, or calls it with another number of rows.
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
    """Return `size` rows from `start` on; the last row is repeated where there are fewer."""
    part = np.asarray(array[start : start + size])
    missing = size - len(part)
    return np.concatenate([part, np.repeat(part[-1:], missing, axis=0)]) if missing else part


def _forward(
    model: Any, distribution: Any, found: ProcessGroup
) -> tuple[Forward, Callable[[Any], Any]]:
    """Return the compiled model, and a function that spreads rows over the mesh."""
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
