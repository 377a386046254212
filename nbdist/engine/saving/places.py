"""The shardings with which saved arrays are restored."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from nbdist.engine.saving.parts import Part
from nbdist.errors import SpecError
from nbdist.quantities import array_type_text

if TYPE_CHECKING:
    from jax.sharding import Mesh, NamedSharding


class Places:
    """Shardings for arrays of names that are not there.

    Args:
      variables: The user's, by name.
    """

    def __init__(self, variables: Mapping[str, Any]) -> None:

        self._meshes = _meshes(variables)
        self._everywhere: NamedSharding | None = None

    def of(self, name: str, part: Part) -> tuple[NamedSharding, str]:
        """Return the sharding for one array, and a text that describes it.

        Args:
          name: The name of its variable.
          part: An array that lay on several processes.

        Raises:
          SpecError: An axis of the mesh does not divide a dimension.
        """
        from jax.sharding import NamedSharding, PartitionSpec

        if part.spec is None:
            return self._replicated(), "replicated: it was saved without a PartitionSpec"
        axes = tuple(axis for axis, _ in part.axes)
        for where, mesh in self._meshes:
            if set(mesh.axis_names) == set(axes):
                _refuse_uneven(f"{name}{part.path}", part, mesh)
                sizes = ", ".join(f"{axis}={size}" for axis, size in mesh.shape.items())
                return NamedSharding(mesh, PartitionSpec(*part.spec)), f"on {where} ({sizes})"
        wanted = ", ".join(axes)
        return self._replicated(), f"replicated: there is no mesh with the axes {wanted}"

    def _replicated(self) -> NamedSharding:
        import jax
        from jax.sharding import Mesh, NamedSharding, PartitionSpec

        if self._everywhere is None:
            mesh = Mesh(jax.devices(), ("devices",))
            self._everywhere = NamedSharding(mesh, PartitionSpec())
        return self._everywhere


def sharding_text(sharding: Any) -> str:
    """Return a text that is equal on two processes if their shardings mean the same."""
    import jax
    from jax.sharding import NamedSharding

    if jax.process_count() > 1 and sharding.is_fully_addressable:
        return f"own: {type(sharding).__name__}"
    if isinstance(sharding, NamedSharding):
        ids = [device.id for device in sharding.mesh.devices.flat]
        return f"{sharding.mesh.shape} {ids} {sharding.spec} {sharding.memory_kind}"
    return f"{sharding} {sorted(device.id for device in sharding.device_set)}"


def _meshes(variables: Mapping[str, Any]) -> list[tuple[str, Mesh]]:
    """Return the mesh that is set, then those of the namespace, larger ones first; each with its name."""
    import jax

    current = jax.sharding.get_mesh()
    found = [("the mesh that is set", current)] if _spans(current) else []
    named = [(f"mesh {name}", value) for name, value in variables.items() if _spans(value)]
    return found + sorted(named, key=lambda one: -one[1].devices.size)


def _spans(value: Any) -> bool:
    import jax
    from jax.sharding import Mesh

    if not isinstance(value, Mesh) or value.empty:
        return False
    spanned = {device.process_index for device in value.devices.flat}
    return len(spanned) == int(jax.process_count())


def _refuse_uneven(said: str, part: Part, mesh: Mesh) -> None:
    assert part.spec is not None
    for dimension, entry in enumerate(part.spec):
        axes = () if entry is None else (entry,) if isinstance(entry, str) else entry
        size, count = part.shape[dimension], math.prod(mesh.shape[axis] for axis in axes)
        if size % count:
            named = " × ".join(f"{axis}={mesh.shape[axis]}" for axis in axes)
            fitting = ", ".join(str(n) for n in range(1, size + 1) if size % n == 0)
            raise SpecError(
                f"{said} ({array_type_text(part.dtype, part.shape)}): the mesh has {named}, which does not "
                f"divide dimension {dimension} of {size}. Needed is a mesh where that is one of {fitting}; or "
                "make an array of this shape under this name with a sharding that fits, and restore again. No "
                "variable was changed."
            )
