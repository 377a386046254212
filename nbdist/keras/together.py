"""The processes that a set distribution spans, doing one thing together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import keras
import numpy as np

from nbdist.errors import AgreementError


@dataclass(frozen=True, slots=True)
class Group:
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


def group() -> Group | None:
    """The processes of the distribution that is set; None where that is this one alone."""
    distribution = keras.distribution.distribution()
    if distribution is None or keras.config.backend() != "jax":
        return None
    import jax

    mesh = distribution.device_mesh.backend_mesh
    processes = tuple(sorted({device.process_index for device in mesh.devices.flat}))
    return Group(mesh, processes, jax.process_index()) if len(processes) > 1 else None


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


def everywhere(value: int, found: Group) -> list[int]:
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


def all_or_none(what: str, act: Callable[[], None] | None, found: Group) -> None:
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


def gathered(variables: Sequence[Any], found: Group) -> dict[int, np.ndarray[Any, Any]]:
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
