"""Descriptions of meshes for reports: axes, types, device keys."""

from __future__ import annotations

import hashlib
import json
import sys
import weakref
from collections.abc import Iterable
from typing import Any

from nbdist.contract.snapshot import Axis, DeviceKey, Mesh
from nbdist.contract.wire import encode


def device_key(device: Any) -> DeviceKey:
    """Return `"process_id:device_id"`."""
    return f"{device.process_index}:{device.id}"


class Meshes:
    """Descriptions of meshes, each made once; no mesh is kept alive.

    A mesh holds its devices, and devices hold their back end, which must be freed when it is taken down.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], Mesh]] = {}

    def describe(self, mesh: Any) -> Mesh:
        """Return the description of a mesh; the same object for the same mesh.

        Args:
          mesh: A `jax.sharding.Mesh`, or an `AbstractMesh`, which has no devices.
        """
        known = self._known.get(id(mesh))
        if known is not None and known[0]() is mesh:
            return known[1]
        described = _describe(mesh)
        self._known = {i: entry for i, entry in self._known.items() if entry[0]() is not None}
        self._known[id(mesh)] = (weakref.ref(mesh), described)
        return described


def _describe(mesh: Any) -> Mesh:
    types = getattr(mesh, "axis_types", None) or (None,) * len(mesh.axis_names)
    axes = [
        Axis(
            name=str(name),
            size=int(mesh.shape[name]),
            # JAX prints AxisType.Explicit and so on; meshes of versions before axis types behave as auto.
            type=kind.name.lower() if kind is not None else "auto",
        )
        for name, kind in zip(mesh.axis_names, types, strict=True)
    ]
    concrete = isinstance(mesh, sys.modules["jax.sharding"].Mesh)
    devices = [device_key(device) for device in mesh.devices.flat] if concrete else []
    return mesh_of(axes, devices)


def mesh_of(axes: Iterable[Axis], devices: Iterable[DeviceKey]) -> Mesh:
    """Return a mesh whose id is a digest of its axes and devices."""
    axes, devices = tuple(axes), tuple(devices)
    text = json.dumps(encode((axes, devices)))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return Mesh(id=digest, axes=axes, devices=devices)
