"""What JAX keeps for the main thread beside Python objects: the mesh in context, and the default device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.jax.repair.twins import Twins


@dataclass(frozen=True)
class Context:
    """As it was noted; the objects are those of the old back end."""

    mesh: Any | None
    default_device: Any | None

    def restore(self, twins: Twins) -> None:
        """Sets the same again, on the new devices."""
        import jax

        if self.mesh is not None:
            jax.set_mesh(twins.of(self.mesh))
        if self.default_device is not None:
            jax.config.update("jax_default_device", twins.of(self.default_device))


def note() -> Context:
    """What is set on the calling thread; `with mesh:` is no matter, since it ends with its cell."""
    import jax

    mesh = jax.sharding.get_mesh()
    device = jax.config.jax_default_device
    return Context(
        mesh=None if mesh is None or mesh.empty else mesh,
        default_device=device if isinstance(device, jax.Device) else None,
    )
