"""A program of a pod, with what a picture of it needs: the pod's devices, and how its arguments lie on them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any, Self

import jax

from nbdist.contract.program import MeshAxes, Program
from nbdist.contract.snapshot import (
    Array,
    Device,
    NamedSharding,
    Sharding,
    SingleDevice,
    Snapshot,
)
from nbdist.pod.devices import Devices
from nbdist.program.compiled import mesh_axes
from nbdist.rehearsal.described import torus_of
from nbdist.view.compiled import MESH, compiled_snapshot
from nbdist.view.one_frame import OneFrame
from nbdist.view.picture import Picture


class PodProgram(Program):
    """A program that was compiled for a pod: a `Program`, with a picture of it on the pod."""

    __slots__ = ("_make",)

    _make: Callable[[Program], Snapshot]

    @classmethod
    def of(cls, program: Program, make: Callable[[Program], Snapshot]) -> Self:
        """A program with what makes its snapshot.

        Args:
          program: As it was read.
          make: Makes the snapshot of it.
        """
        made = cls(
            **{each.name: getattr(program, each.name) for each in dataclasses.fields(program)}
        )
        object.__setattr__(made, "_make", make)
        return made

    def snapshot(self) -> Snapshot:
        """The pod with what the program needs of each device, its arguments, and the program."""
        return self._make(self)

    def picture(self) -> Picture:
        """The pod, the program's mesh and arguments on it, and the program."""
        found = self.snapshot()
        return Picture(OneFrame(found), lambda: found)

    def _ipython_display_(self) -> None:
        """What a notebook does with it, or a terminal."""
        # IPython is there, as it calls this.
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        resident = getattr(shell, "nbdist_resident", None)
        if resident is not None:
            resident.show(self)
        else:
            self.picture().show(in_notebook=getattr(shell, "kernel", None) is not None)


def snapshot_maker(
    devices: Devices, lowered: Any, compiled: Any | None
) -> Callable[[Program], Snapshot]:
    """What makes the snapshot of a program; all it needs of the compiler is looked at now.

    Args:
      devices: Of the pod.
      lowered: A `jax.stages.Lowered`.
      compiled: Its `jax.stages.Compiled`; None where it was refused.
    """
    arguments = [] if compiled is None else arguments_of(lowered, compiled)

    def make(program: Program) -> Snapshot:
        found = [_device(device) for device in devices.all]
        arrays = [array for array, mesh in arguments if mesh is None or mesh == program.mesh]
        return compiled_snapshot(
            program,
            found,
            arrays=arrays,
            arrays_omitted=len(arguments) - len(arrays),
            torus=torus_of(devices.topology, found),
        )

    return make


def arguments_of(lowered: Any, compiled: Any) -> list[tuple[Array, MeshAxes | None]]:
    """The arguments of a program, each with the mesh it lies on, or None where it lies on one device.

    Args:
      lowered: A `jax.stages.Lowered`.
      compiled: Its `jax.stages.Compiled`. Arguments that it does not use are left out, as those in another layout.
    """
    infos = jax.tree_util.tree_leaves_with_path(lowered.args_info)
    shardings = jax.tree.leaves(compiled.input_shardings, is_leaf=lambda leaf: leaf is None)
    if len(infos) != len(shardings):
        return []
    found = []
    for (path, info), sharding in zip(infos, shardings, strict=True):
        described = _sharding(sharding, len(info.shape))
        if described is None:
            continue
        array = Array(
            path=_name(path),
            shape=tuple(info.shape),
            dtype=str(info.dtype),
            nbytes=info.dtype.itemsize * math.prod(info.shape),
            sharding=described,
        )
        on_mesh = isinstance(described, NamedSharding)
        found.append((array, mesh_axes(sharding.mesh) if on_mesh else None))
    return found


def _sharding(sharding: Any, dimensions: int) -> Sharding | None:
    """None of one that is neither over a mesh nor on one device, or of none."""
    if isinstance(sharding, jax.sharding.NamedSharding):
        # Since JAX 0.10.2 the entries have a name, and a spec with unreduced axes refuses to be iterated itself.
        entries = getattr(sharding.spec, "partitions", sharding.spec)
        spec = [_axes(entry) for entry in entries]
        return NamedSharding(
            mesh=MESH,
            spec=(*spec, *[()] * (dimensions - len(spec))),
            unreduced=tuple(sorted(getattr(sharding.spec, "unreduced", ()))),
            memory_kind=sharding.memory_kind,
        )
    if sharding is None or len(sharding.device_set) > 1:
        return None
    (device,) = sharding.device_set
    return SingleDevice(device=_key(device), memory_kind=sharding.memory_kind)


def _axes(entry: Any) -> tuple[str, ...]:
    if isinstance(entry, str):
        return (entry,)
    return tuple(map(str, entry)) if isinstance(entry, tuple) else ()


def _name(path: Any) -> str:
    """`args[0]['w']`; `kwargs['rate']`."""
    kind, *rest = path
    return f"{('args', 'kwargs')[kind.idx]}{jax.tree_util.keystr(tuple(rest))}"


def _key(device: Any) -> str:
    return f"{device.process_index}:{device.id}"


def _device(device: Any) -> Device:
    coords = getattr(device, "coords", None)
    return Device(
        key=_key(device),
        process_id=device.process_index,
        id=device.id,
        platform=device.platform,
        kind=device.device_kind,
        coords=None if coords is None else tuple(int(place) for place in coords),
        memory=None,
        live_bytes=None,
    )
