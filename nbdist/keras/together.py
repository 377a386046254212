"""The processes that a set distribution spans, doing one thing together.

Predictions that every process holds whole.
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
    """Processes whose devices are in the mesh of the set distribution; `me` is one of them.

    The lowest of them writes. `mesh` is JAX's.
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
        """Whether this process does."""
        return self.me == self.writer


def group() -> ProcessGroup | None:
    """The processes of the distribution that is set; None where that is this one alone."""
    distribution = keras.distribution.distribution()
    if distribution is None or keras.config.backend() != "jax":
        return None
    import jax

    mesh = distribution.device_mesh.backend_mesh
    processes = tuple(sorted({device.process_index for device in mesh.devices.flat}))
    return ProcessGroup(mesh, processes, jax.process_index()) if len(processes) > 1 else None


def announce(function: str, **facts: int | str | None) -> None:
    """Waits until all processes of the distribution are about to call the same function.

    Does nothing where no engine of nbdist is at hand.

    Raises:
      AgreementError: One of them is not.
    """
    guards = sys.modules.get("nbdist.engine.frameworks.keras.guards")
    watch = guards.guard() if guards is not None else None
    error = watch.helper(f"nbdist.keras.{function}", **facts) if watch is not None else None
    if error is not None:
        raise error


def everywhere(value: int, found: ProcessGroup) -> list[int]:
    """The values of all processes of the group, in the order of `processes`; a collective."""
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
    """Has those processes act that have something to do; all learn whether it went well.

    Args:
      what: What is done, as in "write /data/model.keras".
      act: What this process does; None: it waits for the others.
      found: The group.

    Raises:
      AgreementError: It failed on another process.
      Exception: What `act` raised here.
    """
    error: Exception | None = None
    try:
        if act is not None:
            act()
    except Exception as raised:  # noqa: BLE001 - whatever it is, the others must know first
        error = raised
    failed = everywhere(int(error is not None), found)
    if error is not None:
        raise error
    for process, flag in zip(found.processes, failed, strict=True):
        if flag:
            raise AgreementError(f"process {process} could not {what}; its own error says why.")


def gathered(variables: Sequence[Any], found: ProcessGroup) -> dict[int, np.ndarray[Any, Any]]:
    """Whole values of those variables that lie in pieces on several processes; a collective.

    Returns:
      By `id` of the variable; on processes that do not write, nothing.
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


def _forward(
    model: Any, distribution: Any, found: ProcessGroup
) -> tuple[Forward, Callable[[Any], Any]]:
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
