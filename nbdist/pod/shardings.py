"""How arrays lie on a pod, as plain data that another process with the same pod can read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from nbdist.pod.devices import Devices


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainNamed:
    """A `NamedSharding`.

    Attributes:
      names: Of the mesh's axes.
      shape: Their sizes.
      types: Of them, by name.
      devices: Ids, in the mesh's order.
      spec: Of each dimension the axes that cut it; None for none.
      memory_kind: As JAX has it.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    types: tuple[str, ...]
    devices: tuple[int, ...]
    spec: tuple[tuple[str, ...] | None, ...]
    memory_kind: str | None
    kind: Literal["named"] = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSingle:
    """A `SingleDeviceSharding`.

    Attributes:
      device: Its id.
      memory_kind: As JAX has it.
    """

    device: int
    memory_kind: str | None
    kind: Literal["single"] = "single"


Plain = PlainNamed | PlainSingle


def plain_shardings(shardings: Sequence[Any], devices: Devices) -> tuple[Plain, ...] | None:
    """The shardings as plain data; None where one of them has none from which it can be made again."""
    found = []
    for sharding in shardings:
        plain = _plain(sharding)
        if plain is None or shardings_of([plain], devices) != (sharding,):
            return None
        found.append(plain)
    return tuple(found)


def shardings_of(plain: Sequence[Plain], devices: Devices) -> tuple[Any, ...]:
    """The shardings.

    Raises:
      KeyError: Their devices are none of the pod's.
    """
    return tuple(_sharding(one, devices) for one in plain)


def _plain(sharding: Any) -> Plain | None:
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding.device_set
        return PlainSingle(device=device.id, memory_kind=sharding.memory_kind)
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    mesh = sharding.mesh
    entries = [(one,) if isinstance(one, str) else one for one in sharding.spec]
    if not all(one is None or isinstance(one, tuple) for one in entries):
        return None
    return PlainNamed(
        names=tuple(map(str, mesh.axis_names)),
        shape=tuple(mesh.devices.shape),
        types=tuple(one.name for one in mesh.axis_types),
        devices=tuple(device.id for device in mesh.devices.flat),
        spec=tuple(entries),
        memory_kind=sharding.memory_kind,
    )


def _sharding(plain: Plain, devices: Devices) -> Any:
    if isinstance(plain, PlainSingle):
        return SingleDeviceSharding(devices.by_id[plain.device], memory_kind=plain.memory_kind)
    placed = np.array([devices.by_id[number] for number in plain.devices], dtype=object)
    mesh = Mesh(
        placed.reshape(plain.shape),
        plain.names,
        axis_types=tuple(AxisType[one] for one in plain.types),
    )
    entries = [one[0] if one is not None and len(one) == 1 else one for one in plain.spec]
    return NamedSharding(mesh, PartitionSpec(*entries), memory_kind=plain.memory_kind)
