"""Meshes as plain data: axes, types, device keys."""

from __future__ import annotations

import hashlib
import json
import sys
import weakref
from typing import Any


def device_key(device: Any) -> str:
    """`"process_id:device_id"`."""
    return f"{device.process_index}:{device.id}"


class Meshes:
    """Describes each mesh once and keeps no mesh alive.

    A mesh holds its devices and they their back end, which must go away when it is taken down.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], dict[str, Any]]] = {}

    def describe(self, mesh: Any) -> dict[str, Any]:
        """A mesh in the form of `nbdist.contract.snapshot.Mesh`; the same object for the same mesh.

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


def _describe(mesh: Any) -> dict[str, Any]:
    types = getattr(mesh, "axis_types", None) or (None,) * len(mesh.axis_names)
    axes = [
        {
            "name": str(name),
            "size": int(mesh.shape[name]),
            # JAX prints AxisType.Explicit and so on; meshes of before axis types behave as auto.
            "type": kind.name.lower() if kind is not None else "auto",
        }
        for name, kind in zip(mesh.axis_names, types, strict=True)
    ]
    concrete = isinstance(mesh, sys.modules["jax.sharding"].Mesh)
    devices = [device_key(device) for device in mesh.devices.flat] if concrete else []
    return mesh_of(axes, devices)


def mesh_of(axes: list[dict[str, Any]], devices: list[str]) -> dict[str, Any]:
    """A mesh as `nbdist.contract.snapshot.Mesh`: its id is a digest of axes and devices, whoever made it."""
    digest = hashlib.sha256(json.dumps([axes, devices]).encode()).hexdigest()[:12]
    return {"id": digest, "axes": axes, "devices": devices}
