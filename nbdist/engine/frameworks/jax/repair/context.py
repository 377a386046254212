"""JAX's context on the main thread, which is set and not named: the mesh in context and the default device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.jax.repair.twins import Twins


@dataclass(frozen=True)
class Context:
    """The mesh in context and the default device when they were noted, of the old back end."""

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
