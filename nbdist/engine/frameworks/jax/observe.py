"""Devices, meshes and named arrays of this process, as a report carries them.

Imports no framework, starts no back end, reads no device memory and never touches
`addressable_shards`, whose reading makes further live arrays.
"""

from __future__ import annotations

import sys
from typing import Any

from nbdist.contract.snapshot import Array, Device, Distribution, Memory, Mesh
from nbdist.engine.frameworks.jax.backend import backend, ready
from nbdist.engine.frameworks.jax.context import ContextMesh
from nbdist.engine.frameworks.jax.describe import Descriptions
from nbdist.engine.frameworks.jax.heap import live_bytes
from nbdist.engine.frameworks.jax.meshes import Meshes, device_key

__all__ = ["Observer", "describe", "devices", "ready"]


class Observer:
    """What `nbdist.engine.probe.observer.Observer` asks, for JAX; used from one thread.

    Args:
      main_thread: `threading.Thread.ident` of the thread whose mesh in context counts.
    """

    def __init__(self, main_thread: int) -> None:
        self._meshes = Meshes()
        self._context = ContextMesh(main_thread)
        self._descriptions = Descriptions(self._meshes)
        self._client: Any = None

    def begin(self) -> bool:
        """Starts a look; False while no back end is up."""
        # Kept for the length of a look only: a back end must go away when it is taken down.
        self._client = backend()
        self._descriptions.begin()
        if self._client is None:
            return False
        mesh = self._context.mesh()
        if mesh is not None:
            self._descriptions.add_mesh(mesh)
        return True

    def context_mesh(self) -> str | None:
        """The id of the mesh in context on the main thread; None where there is none."""
        mesh = self._context.mesh()
        return self._meshes.describe(mesh).id if mesh is not None else None

    def array_classes(self) -> tuple[type, ...]:
        """`jax.Array`."""
        return array_classes()

    def mesh_classes(self) -> tuple[type, ...]:
        """`jax.sharding.Mesh`."""
        return mesh_classes()

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """Lists an array; False for one that is deleted or was donated, unless it is lent."""
        return self._descriptions.add(path, array, lent=lent)

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """Lists again what the look before listed under a path with this shape."""
        return self._descriptions.keep(path, shape)

    def add_mesh(self, mesh: Any) -> None:
        """Lists a mesh met by itself. The empty mesh is none."""
        self._descriptions.add_mesh(mesh)

    def describe(self, array: Any) -> Array | None:
        """One array without its path; its mesh is listed."""
        return self._descriptions.describe(array)

    def devices(self) -> tuple[Device, ...]:
        """This process's devices."""
        client, self._client = self._client, None
        return devices(client)

    def meshes(self) -> tuple[Mesh, ...]:
        """The meshes of this look, by id."""
        return self._descriptions.meshes()

    def arrays(self) -> tuple[Array, ...]:
        """The arrays of this look, in the order met."""
        return self._descriptions.arrays()

    def distributions(self) -> tuple[Distribution, ...]:
        """JAX itself sets none: meshes and shardings say it all."""
        return ()

    def note(self) -> None:
        """Notes the mesh in context."""
        self._context.note()

    def hook(self) -> None:
        """Has each change of the mesh in context noted."""
        self._context.hook()

    def unhook(self) -> None:
        """Leaves JAX as it was."""
        self._context.unhook()


def array_classes() -> tuple[type, ...]:
    """`jax.Array`, where JAX has been imported."""
    array = getattr(sys.modules.get("jax"), "Array", None)
    return (array,) if array is not None else ()


def mesh_classes() -> tuple[type, ...]:
    """`jax.sharding.Mesh`, where JAX has been imported."""
    mesh = getattr(sys.modules.get("jax.sharding"), "Mesh", None)
    return (mesh,) if mesh is not None else ()


def describe(array: Any) -> tuple[Array, tuple[Mesh, ...]]:
    """One array, with an empty path, and the mesh it lies on.

    Args:
      array: A `jax.Array` that holds values; no tracer, not deleted.
    """
    descriptions = Descriptions(Meshes())
    descriptions.add("", array)
    (described,) = descriptions.arrays()
    return described, descriptions.meshes()


def devices(client: Any) -> tuple[Device, ...]:
    """This process's devices.

    Args:
      client: The back end's client; the public `jax.local_devices()` would start one where it was taken
        down a moment ago.
    """
    local = client.local_devices()
    live = live_bytes(client)
    if live is not None and not live.keys() <= {str(device) for device in local}:
        live = None  # labelled otherwise than expected: no figure rather than a wrong one
    return tuple(
        Device(
            key=device_key(device),
            process_id=device.process_index,
            id=device.id,
            platform=device.platform,
            kind=device.device_kind,
            coords=_coords(device),
            memory=_memory(device),
            live_bytes=live.get(str(device), 0) if live is not None else None,
        )
        for device in local
    )


def _coords(device: Any) -> tuple[int, ...] | None:
    coords = getattr(device, "coords", None)
    return tuple(int(c) for c in coords) if coords is not None else None


def _memory(device: Any) -> Memory | None:
    try:
        stats = device.memory_stats()
    except (RuntimeError, NotImplementedError):
        return None
    if not stats:
        return None

    def of(name: str) -> int | None:
        return int(stats[name]) if name in stats else None

    return Memory(
        bytes_in_use=of("bytes_in_use"),
        peak_bytes_in_use=of("peak_bytes_in_use"),
        bytes_limit=of("bytes_limit"),
    )
