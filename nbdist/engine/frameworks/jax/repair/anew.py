"""Devices, meshes, shardings and arrays of the old back end, made anew on the new one, and JAX's context.

A new device has the key of the old one that it replaces. Meshes and shardings are made again over the new devices.
Before the old back end is taken down, every live array of this process is copied to the host, each piece once
(`save`); afterwards `remade` makes the arrays from these copies.
"""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.contract.calls.stepping import NOT_SENT
from nbdist.engine.frameworks.jax.arrays import plain_settings, shards
from nbdist.engine.frameworks.jax.private import (
    ARRAY_IMPL,
    GSPMD_SHARDING,
    LIVE_BACKENDS,
    hlo_parts,
    is_committed,
)
from nbdist.engine.frameworks.jax.repair.survey import Survey, Twins, matters, survey
from nbdist.errors import RecoveryError
from nbdist.notation import bytes_text

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

    No name leads to them, so they are set again after a repair.
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


def context_now() -> Context:
    """Return the context of the calling thread; a `with mesh:` does not count, since it ends with its cell."""
    import jax

    mesh = jax.sharding.get_mesh()
    device = jax.config.jax_default_device
    return Context(
        mesh=None if mesh is None or mesh.empty else mesh,
        default_device=device if isinstance(device, jax.Device) else None,
    )


MARGIN = 0.8
"""Share of the free memory that copies may fill; each further piece goes to disk."""

_CUT = re.compile(r"Gloo [\w-]+ failed: .*Connection closed by peer")
"""Error of a collective whose connections were ended for a repair while it waited for another process."""


@dataclass
class ArrayCopies:
    """Copies of arrays.

    `pieces` has the copies of each array of `arrays`: the ids of the devices that have a piece, and the piece.
    `lost` are arrays whose values could not be read, `reasons` says why. `nbytes` counts the bytes in memory,
    `on_disk` those that did not fit there.
    """

    arrays: list[Any] = field(default_factory=list)
    pieces: list[list[tuple[list[int], Any]]] = field(default_factory=list)
    lost: list[Any] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    nbytes: int = 0
    on_disk: int = 0

    def clear(self) -> None:
        """Drop all arrays and copies."""
        for values in (self.arrays, self.pieces, self.lost, self.reasons):
            values.clear()


def save(
    arrays: Iterable[Any],
    *,
    folder: Path,
    room_bytes: int | None = None,
    hopeless: Callable[[Any], bool] = lambda array: False,
) -> ArrayCopies:
    """Copy all pieces of these arrays on this process; wait for arrays that are being computed.

    Args:
      arrays: Arrays of any sharding; deleted ones are left out.
      folder: Gets the copies that do not fit in memory.
      room_bytes: Memory for copies; default: most of what is free now.
      hopeless: Returns whether an array that is not ready waits for values that will not come; called again and
        again. Such an array is lost.

    Raises:
      RecoveryError: Neither memory nor disk has room.
    """
    saved = ArrayCopies()
    room = int(free_bytes() * MARGIN) if room_bytes is None else room_bytes
    for array in arrays:
        if array.is_deleted():
            continue
        try:
            _wait(array, hopeless)
            with plain_settings():
                pieces = _unique(array)
        except (RuntimeError, ValueError) as error:
            saved.lost.append(array)
            saved.reasons.append(NOT_SENT if _CUT.search(str(error)) else str(error))
            continue
        saved.arrays.append(array)
        saved.pieces.append(
            [(devices, _copy(piece, saved, room, folder)) for devices, piece in pieces]
        )
    return saved


def _wait(array: Any, hopeless: Callable[[Any], bool]) -> None:
    """Wait until an array has its values.

    Raises:
      RuntimeError: The array will get none.
    """
    pause = 0.001
    while not array.is_ready():
        if hopeless(array):
            raise RuntimeError(NOT_SENT)
        time.sleep(pause)
        pause = min(2 * pause, 0.05)
    array.block_until_ready()


def _copy(piece: Any, saved: ArrayCopies, room: int, folder: Path) -> Any:
    """Return a copy in memory, or on disk if the copies would exceed `room` bytes; count its bytes."""
    if saved.nbytes + piece.nbytes <= room:
        saved.nbytes += piece.nbytes
        return piece.copy()
    saved.on_disk += piece.nbytes
    return _on_disk(piece, folder)


def _unique(array: Any) -> list[tuple[list[int], Any]]:
    """Return each piece once, with the ids of all devices of this process that hold it.

    Replicas with different values, as `shard_map` with `check_vma=False` makes them, count as separate pieces.
    """
    import numpy

    found: dict[tuple[tuple[int | None, int | None], ...], list[tuple[list[int], Any]]] = {}
    for shard in shards(array):
        key = tuple((part.start, part.stop) for part in shard.index)
        piece, known = numpy.asarray(shard.data), found.setdefault(key, [])
        for devices, other in known:
            if numpy.array_equal(_bytes(piece), _bytes(other)):
                devices.append(shard.device.id)
                break
        else:
            known.append(([shard.device.id], piece))
    return [pair for known in found.values() for pair in known]


def _bytes(piece: Any) -> Any:
    import numpy

    return numpy.ascontiguousarray(piece).reshape(-1).view(numpy.uint8)


def _on_disk(piece: Any, folder: Path) -> Any:
    """Return a copy in a file without a name, so that no file is left behind."""
    import numpy

    with tempfile.TemporaryFile(dir=folder) as file:
        _reserve(file.fileno(), piece.nbytes, folder)
        mapped = numpy.memmap(file, dtype=numpy.uint8, mode="w+", shape=(max(1, piece.nbytes),))
        mapped[: piece.nbytes] = _bytes(piece)
        return mapped[: piece.nbytes].view(piece.dtype).reshape(piece.shape)


def _reserve(descriptor: int, count: int, folder: Path) -> None:
    """Reserve room in a file: writing to a mapped file without room would end the process (SIGBUS).

    Raises:
      RecoveryError: The disk has no room.
    """
    if not count or not hasattr(os, "posix_fallocate"):
        return
    try:
        os.posix_fallocate(descriptor, 0, count)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
            raise RecoveryError(
                f"a copy of {bytes_text(count)} finds no room in memory, nor on disk in {folder}: "
                f"{error.strerror}. Nothing was changed; delete what is not needed (del NAME), or free room there"
            ) from None


def free_bytes() -> int:
    """Return the bytes of memory that can be taken without harm; `sys.maxsize` if the system does not say.

    Source: `MemAvailable` of /proc/meminfo, and the group's limit (cgroup v2) where it is lower.
    """
    found = [sys.maxsize]
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                found.append(int(line.split()[1]) * 1024)
        group = Path("/sys/fs/cgroup")
        limit = (group / "memory.max").read_text().strip()
        if limit != "max":
            found.append(int(limit) - int((group / "memory.current").read_text()))
    except (OSError, ValueError):
        pass
    return max(0, min(found))


def remade(
    old: Any, pieces: list[tuple[list[int], Any]], sharding: Any, local: dict[int, Any]
) -> Any:
    """Return the array that replaces an old one.

    Args:
      old: Gives shape, dtype, weak type and whether the array is committed to its devices.
      pieces: The copies of the old array, as in `ArrayCopies.pieces`.
      sharding: The new sharding.
      local: This process's new devices by id.
    """
    import jax

    kind = sharding.memory_kind
    with plain_settings():
        buffers = [
            jax.device_put(
                piece, jax.sharding.SingleDeviceSharding(local[device], memory_kind=kind)
            )
            for devices, piece in pieces
            for device in devices
        ]
        return array_like(old, sharding, buffers)


def deleted(old: Any, sharding: Any, local: dict[int, Any]) -> Any:
    """Return an array without values, which raises an error when it is used."""
    import numpy

    devices = sorted(device.id for device in sharding.device_set if device.id in local)
    zeros = numpy.zeros(sharding.shard_shape(old.shape), old.dtype)
    found = remade(old, [(devices, zeros)], sharding, local)
    found.delete()
    return found


def array_like(old: Any, sharding: Any, buffers: list[Any]) -> Any:
    """Return an array of these buffers that differs from the old one only in its devices.

    Where JAX's private API has changed, it is of a strong type, and committed to its devices.
    """
    import jax

    # The dtype is given since there may be no buffers: none of the devices may be this process's.
    made = jax.make_array_from_single_device_arrays(old.shape, sharding, buffers, dtype=old.dtype)
    committed, weak = is_committed(old), bool(getattr(old, "weak_type", False))
    make = ARRAY_IMPL.get()
    if make is None or (committed and not weak):
        return made
    try:
        return make(made.aval.update(weak_type=weak), sharding, buffers, committed=committed)
    except (TypeError, AttributeError):
        return made
