"""New devices, meshes and shardings in place of those of the old back end, and in JAX's context.

A new device has the key of the old one that it replaces. Meshes and shardings are made again over the new devices.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.jax.private import GSPMD_SHARDING, LIVE_BACKENDS, hlo_parts
from nbdist.engine.frameworks.jax.repair.survey import Survey, Twins, matters, survey

Key = tuple[str, int, int]
"""Platform, process and id of a device; they stay the same when its back end is made anew."""


def device_key(device: Any) -> Key:
    """Return the key that a device shares with its successor."""
    return device.platform, device.process_index, device.id


@dataclass
class NewDevices:
    """The devices of the new back end: all by key, and this process's by id."""

    by_key: dict[Key, Any]
    local: dict[int, Any]

    @classmethod
    def now(cls, platforms: list[str]) -> NewDevices:
        """Return the devices of these platforms; start their back ends."""
        import jax

        every = [device for platform in platforms for device in jax.devices(platform)]
        return cls(
            by_key={device_key(device): device for device in every},
            local={d.id: d for d in every if d.process_index == jax.process_index(d.platform)},
        )


@dataclass
class Old:
    """The objects of the old back end, found in one walk over the heap before it is taken down.

    `survey` includes the objects whose class `matters` when references are re-pointed.
    """

    devices: list[Any]
    meshes: list[Any]
    shardings: list[Any]
    platforms: list[str]
    survey: Survey


def find_old(earlier: Old | None = None) -> Old:
    """Return all devices, meshes and shardings of this process.

    Args:
      earlier: The result from before a repair that did not end; its devices are old as well.
    """
    import jax

    kinds = sys.modules["jax.sharding"]
    platforms = live_platforms()
    sharding = jax.sharding.Sharding
    found = survey(lambda kind: kind is kinds.Mesh or issubclass(kind, sharding) or matters(kind))
    # Never isinstance: it asks the object for its `__class__`, which may run code of the user's.
    meshes = [one for one in found.wanted if type(one) is kinds.Mesh and not one.empty]
    shardings = [one for one in found.wanted if issubclass(type(one), sharding)]
    devices = [device for platform in platforms for device in jax.devices(platform)]
    if earlier is not None:
        known = set(map(id, earlier.devices))
        devices = [*earlier.devices, *(device for device in devices if id(device) not in known)]
        platforms = earlier.platforms
    return Old(devices, meshes, shardings, platforms, found)


def live_platforms() -> list[str]:
    """Return the platforms whose back end is up, the default one first."""
    import jax

    default = jax.default_backend()
    found = LIVE_BACKENDS.get() or {}
    return [default, *(name for name in found if name != default and name != "interpreter")]


def add_twins(old: Old, devices: NewDevices, twins: Twins) -> None:
    """Add a twin for every old device, mesh and sharding.

    Raises:
      KeyError: A device has no successor, since the processes are not the same as before.
    """
    for device in old.devices:
        twins.add(device, devices.by_key[device_key(device)])
    for mesh in old.meshes:
        twins.add(mesh, _mesh(mesh, twins))
    for sharding in old.shardings:
        new = sharding_like(sharding, twins)
        if new is not None:
            twins.add(sharding, new)


def _mesh(old: Any, twins: Twins) -> Any:
    import numpy

    devices = numpy.empty(old.devices.shape, dtype=object)
    for index, device in numpy.ndenumerate(old.devices):
        devices[index] = twins.of(device)
    return type(old)(devices, old.axis_names, axis_types=old.axis_types)


def sharding_like(old: Any, twins: Twins) -> Any | None:
    """Return the same sharding on the new devices; None if it has no concrete devices or cannot be made."""
    kinds = sys.modules["jax.sharding"]
    kind = type(old)
    if kind is kinds.NamedSharding:
        mesh = twins.of(old.mesh)
        if mesh is old.mesh:
            return None  # abstract
        return kinds.NamedSharding(mesh, old.spec, memory_kind=old.memory_kind)
    if kind is kinds.SingleDeviceSharding:
        (device,) = old.device_set
        return kinds.SingleDeviceSharding(twins.of(device), memory_kind=old.memory_kind)
    return _by_hlo(old, twins)


def _by_hlo(old: Any, twins: Twins) -> Any | None:
    """Return a sharding on the new devices like one that XLA or a compiled function has chosen, or None."""
    make, parts = GSPMD_SHARDING.get(), hlo_parts(old)
    if make is None or parts is None:
        return None
    devices, hlo = parts
    return make(tuple(twins.of(d) for d in devices), hlo, memory_kind=old.memory_kind)


@dataclass(frozen=True)
class Context:
    """The mesh in context and the default device on the main thread when they were noted, of the old back end.

    They are set, not named, and so are set again after a repair.
    """

    mesh: Any | None
    default_device: Any | None

    def restore(self, twins: Twins) -> None:
        """Set the same mesh and device again, on the new devices."""
        import jax

        if self.mesh is not None:
            jax.set_mesh(twins.of(self.mesh))
        if self.default_device is not None:
            jax.config.update("jax_default_device", twins.of(self.default_device))


def note() -> Context:
    """Return the context of the calling thread; a `with mesh:` does not count, since it ends with its cell."""
    import jax

    mesh = jax.sharding.get_mesh()
    device = jax.config.jax_default_device
    return Context(
        mesh=None if mesh is None or mesh.empty else mesh,
        default_device=device if isinstance(device, jax.Device) else None,
    )
