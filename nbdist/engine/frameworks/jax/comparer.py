"""Comparer of JAX's arrays, keys, settings and meshes, which must be equal on all processes before a cell."""

from __future__ import annotations

from typing import Any

from nbdist.contract.agreement import LocalArray
from nbdist.contract.snapshot import Mesh
from nbdist.engine.agreement import comparer
from nbdist.engine.frameworks.jax.context import mesh_in_context
from nbdist.engine.frameworks.jax.describe import Descriptions
from nbdist.engine.frameworks.jax.keys import Keys
from nbdist.engine.frameworks.jax.meshes import Meshes
from nbdist.engine.frameworks.jax.observe import array_classes, mesh_classes
from nbdist.engine.frameworks.jax.settings import settings


class Comparer(comparer.Comparer):
    """Comparer of what JAX has on this process; keeps no array alive."""

    def __init__(self) -> None:
        self._meshes = Meshes()
        self._descriptions = Descriptions(self._meshes)
        self._local: dict[str, LocalArray | None] = {}
        self._keys = Keys()

    def begin(self) -> None:
        """Start to look at the names that a cell reads."""
        self._descriptions.begin()
        self._local, self._keys = {}, Keys()

    def array_classes(self) -> tuple[type, ...]:
        """Return `jax.Array`."""
        return array_classes()

    def mesh_classes(self) -> tuple[type, ...]:
        """Return `jax.sharding.Mesh`."""
        return mesh_classes()

    def add(self, path: str, array: Any) -> bool:
        """Note an array under a path; return False for a deleted one."""
        if array.is_deleted():
            self._local[path] = None
            return False
        self._keys.add(path, array)
        if not spans_processes(array):
            self._local[path] = LocalArray(dtype=str(array.dtype), shape=tuple(array.shape))
            return True
        return self._descriptions.add(path, array)

    def add_mesh(self, mesh: Any) -> None:
        """Note a mesh that was met outside an array."""
        self._descriptions.add_mesh(mesh)

    def found(self) -> comparer.Found:
        """Return the arrays, meshes and keys noted since `begin`."""
        return comparer.Found(
            arrays={one.path: one for one in self._descriptions.arrays()},
            meshes={one.id: one for one in self._descriptions.meshes()},
            local=self._local,
            keys=self._keys.found,
        )

    def settings(self) -> dict[str, str] | None:
        """Return the values of `jax.config` as text by name."""
        return settings()

    def mesh(self) -> Mesh | None:
        """Return the mesh in context on the calling thread; None if there is none."""
        mesh = mesh_in_context()
        return self._meshes.describe(mesh) if mesh is not None else None


def spans_processes(array: Any) -> bool:
    """Return whether other processes hold parts of an array, so that all must describe it alike."""
    return not array.is_fully_addressable
