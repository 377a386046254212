"""Devices, meshes and named arrays of this process, as a report carries them.

Imports no framework, starts no back end, reads no device memory and never touches
`addressable_shards`, whose reading makes further live arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdist.engine.jax.backend import backend, ready
from nbdist.engine.jax.describe import Descriptions
from nbdist.engine.jax.heap import live_bytes
from nbdist.engine.jax.meshes import Meshes, device_key
from nbdist.engine.walk import Bounds, Walk

__all__ = ["Observer", "Seen", "describe", "devices", "ready"]


@dataclass(frozen=True, slots=True)
class Seen:
    """One look: sections of a report, as plain data."""

    devices: list[dict[str, Any]]
    meshes: list[dict[str, Any]]
    arrays: list[dict[str, Any]]
    arrays_omitted: int


NOTHING = Seen([], [], [], 0)
"""What there is to see before a back end is up."""


class Observer:
    """Looks at a namespace again and again; used from one thread.

    Args:
      meshes: Shared with whoever names meshes by their id in the same reports.
      bounds: How far the walk over the namespace goes.
    """

    def __init__(self, meshes: Meshes, bounds: Bounds) -> None:
        self._bounds = bounds
        self._descriptions = Descriptions(meshes)

    def look(self, namespace: dict[str, object], context_mesh: Any | None) -> Seen:
        """What there is now; holds no array afterwards.

        Args:
          namespace: The user's names.
          context_mesh: JAX's mesh in context on the main thread, if any; listed even when no array is on it.
        """
        client = backend()
        if client is None:
            return NOTHING
        descriptions = self._descriptions
        descriptions.begin()
        if context_mesh is not None:
            descriptions.add_mesh(context_mesh)
        walk = Walk(found=descriptions.add, mesh=descriptions.add_mesh, bounds=self._bounds)
        omitted = walk.run(namespace)
        return Seen(devices(client), descriptions.meshes(), descriptions.arrays(), omitted)


def describe(array: Any) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """One array and the mesh it lies on, as `nbdist.snapshot.Array` without its path, and `Mesh`.

    Args:
      array: A `jax.Array` that holds values; no tracer, not deleted.
    """
    descriptions = Descriptions(Meshes())
    descriptions.add("", array)
    (described,) = descriptions.arrays()
    return {k: v for k, v in described.items() if k != "path"}, descriptions.meshes()


def devices(client: Any) -> list[dict[str, Any]]:
    """This process's devices, in the form of `nbdist.snapshot.Device`.

    Args:
      client: The back end's client; the public `jax.local_devices()` would start one where it was taken
        down a moment ago.
    """
    local = client.local_devices()
    live = live_bytes(client)
    if live is not None and not live.keys() <= {str(device) for device in local}:
        live = None  # labelled otherwise than expected: no figure rather than a wrong one
    return [
        {
            "key": device_key(device),
            "process_id": device.process_index,
            "id": device.id,
            "platform": device.platform,
            "kind": device.device_kind,
            "coords": _coords(device),
            "memory": _memory(device),
            "live_bytes": live.get(str(device), 0) if live is not None else None,
        }
        for device in local
    ]


def _coords(device: Any) -> list[int] | None:
    coords = getattr(device, "coords", None)
    return [int(c) for c in coords] if coords is not None else None


def _memory(device: Any) -> dict[str, int | None] | None:
    try:
        stats = device.memory_stats()
    except (RuntimeError, NotImplementedError):
        return None
    if not stats:
        return None
    names = ("bytes_in_use", "peak_bytes_in_use", "bytes_limit")
    return {name: int(stats[name]) if name in stats else None for name in names}
