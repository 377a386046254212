"""Placements of JAX's arrays on another number of processes.

A mesh over all devices is made anew over all new devices: one axis gets another size, all else is kept. An array
keeps its `PartitionSpec`, except for dimensions that the new sizes do not divide: these are whole on each device.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.interfaces import ThisProcess
from nbdist.engine.frameworks.jax.placements import Device, JaxPlacements
from nbdist.engine.frameworks.jax.start import step_or_new
from nbdist.engine.frameworks.jax.step import Step
from nbdist.errors import ArrayError
from nbdist.notation import array_type_text, count_text, names_text

Entry = Any
"""The entry of a `PartitionSpec` for one dimension."""


@dataclass(frozen=True)
class _Laid:
    """The new placement of one array, in place of its sharding."""

    mesh: Any
    spec: tuple[Entry, ...]
    memory: str | None


class JaxResized(JaxPlacements):
    """Placements of this process's arrays, described for another number of processes.

    Args:
      namespace: The user's namespace.
      step: Has noted which program computed each array.
      processes: The new number of processes.

    Raises:
      ArrayError: Processes have different numbers of devices. Methods: an object has no place on the new number.
    """

    def __init__(self, namespace: dict[str, Any], step: Step, processes: int) -> None:
        import jax

        super().__init__(namespace, step)
        self._processes = processes
        self._before = jax.device_count()
        self._devices = processes * jax.local_device_count()
        if self._before != jax.process_count() * jax.local_device_count():
            raise ArrayError(
                "The processes have different numbers of devices, so it is not known how many "
                f"{count_text(processes, 'process')} will have. Nothing was changed."
            )
        self._changes: dict[str, None] = {}
        # Dimensions that are no longer split, by the axes that do not divide them.
        self._whole: dict[str, dict[str, None]] = {}

    def changes(self) -> Sequence[str]:
        """Return a sentence for each mesh that is made anew, and one for all that the same axes do not divide."""
        whole = (
            f"what {axes} does not divide is replicated on every device now: {names_text(dimensions)}"
            for axes, dimensions in self._whole.items()
        )
        return (*self._changes, *whole)

    def placement(self, array: Any) -> Any:
        """Return an array's placement, with a spec that fits its shape if its mesh is over all devices."""
        import jax

        sharding, *rest = super().placement(array)
        if type(sharding) is jax.sharding.NamedSharding and self._is_over_all(sharding.mesh):
            spec = self._fitting(array, sharding)
            sharding = _Laid(sharding.mesh, spec, sharding.memory_kind)
        return (sharding, *rest)

    def reference(self, value: Any) -> Any | None:
        """Return the stand-in for a value; a mesh over all devices is made anew over the new ones."""
        import jax

        if type(value) is _Laid:
            return "named", value.mesh, jax.sharding.PartitionSpec(*value.spec), value.memory
        if type(value) is jax.sharding.Mesh and self._is_over_all(value):
            return "anew", self._mesh_sizes(value), value.axis_names, value.axis_types
        return super().reference(value)

    def _is_over_all(self, mesh: Any) -> bool:
        return type(mesh) is sys.modules["jax"].sharding.Mesh and mesh.size == self._before

    def _mesh_sizes(self, mesh: Any) -> tuple[int, ...]:
        found = self.sizes(dict(mesh.shape))
        if list(mesh.devices.flat) != sys.modules["jax"].devices():
            axes = _mesh_text(dict(zip(mesh.axis_names, found, strict=True)))
            self._changes[
                f"mesh {axes} is in the order of jax.devices(), which it was not before"
            ] = None
        return found

    def sizes(self, before: Mapping[str, int]) -> tuple[int, ...]:
        """Return the axis sizes of a mesh that is made anew, from its sizes by name.

        Raises:
          ArrayError: The mesh is not over all devices, or no size of one axis makes it fit the new number.
        """
        if math.prod(before.values()) != self._before:
            raise self._over_a_part(math.prod(before.values()))
        found = resized(before, self._devices)
        if found is None:
            raise ArrayError(
                f"The mesh {_mesh_text(before)} cannot be made anew over "
                f"{count_text(self._devices, 'device')}: no size of one axis gives it so many. "
                f"{_that_would(before, self._devices // self._processes)} Nothing was changed."
            )
        if found != before:
            self._changes[f"mesh {_mesh_text(before)} becomes {_mesh_text(found)}"] = None
        return tuple(found.values())

    def _fitting(self, array: Any, sharding: Any) -> tuple[Entry, ...]:
        """Return the spec of an array, without the axes that no longer divide a dimension."""
        sizes = dict(zip(sharding.mesh.axis_names, self._mesh_sizes(sharding.mesh), strict=True))
        spec = []
        for dimension, entry in enumerate(sharding.spec):
            axes = () if entry is None else (entry,) if isinstance(entry, str) else tuple(entry)
            count = math.prod(sizes[axis] for axis in axes)
            if array.shape[dimension] % count == 0:
                spec.append(entry)
                continue
            spec.append(None)
            named = " × ".join(f"{axis}={sizes[axis]}" for axis in axes)
            text = f"{self._key(array)} ({array_type_text(str(array.dtype), array.shape)})"
            self._whole.setdefault(named, {})[f"dimension {dimension} of {text}"] = None
        return tuple(spec)

    def _all_own(self, devices: Iterable[Any]) -> bool:
        """Return True if all devices of a mesh are of this process; otherwise raise `ArrayError`."""
        if super()._all_own(devices := list(devices)):
            return True
        raise self._over_a_part(len(devices))

    def _over_a_part(self, devices: int) -> ArrayError:
        return ArrayError(
            f"A mesh lies on {devices} of {count_text(self._before, 'device')}, on several processes: "
            f"nothing says where it would be among {self._devices}. Delete it, with what lies on it (del), "
            "or make it over all devices. Nothing was changed."
        )

    def _device(self, device: Any, *, own: bool) -> Device:
        if not own and device.process_index >= self._processes:
            raise ArrayError(
                f"A variable refers to {device} of process {device.process_index}, which will not be "
                "there. Delete it (del). Nothing was changed."
            )
        return super()._device(device, own=own)


def resized(axes: Mapping[str, int], devices: int) -> dict[str, int] | None:
    """Return the sizes of a mesh over another number of devices, changing the first axis that can be changed.

    Args:
      axes: Sizes by name, in order.
      devices: The new number of devices.

    Returns:
      None if no axis can be changed to fit.
    """
    total = math.prod(axes.values())
    if devices == total:
        return dict(axes)
    for name, size in axes.items():
        others = total // size
        if devices % others == 0:
            return {**axes, name: devices // others}
    return None


def _that_would(axes: Mapping[str, int], each: int) -> str:
    """Return a sentence that says for which numbers of processes, with `each` devices, a mesh can be made anew."""
    total = math.prod(axes.values())
    most = 2 * total // each
    fitting = [n for n in range(1, most + 1) if resized(axes, n * each) is not None]
    return f"It can for {', '.join(map(str, fitting))} processes of {count_text(each, 'device')}."


def _mesh_text(axes: Mapping[str, int]) -> str:
    return " × ".join(f"{name}={size}" for name, size in axes.items())


def placing(process: ThisProcess, *, processes: int | None = None) -> JaxPlacements:
    """Return the placements of this process's arrays; `processes` as for `interfaces.Placing`."""
    step = step_or_new(process)
    if processes is None:
        return JaxPlacements(process.shell.user_ns, step)
    return JaxResized(process.shell.user_ns, step, processes)
