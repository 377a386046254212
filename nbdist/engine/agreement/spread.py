"""What is set on the main thread to spread arrays: JAX's mesh in context, Keras' distribution."""

from __future__ import annotations

import threading
from typing import Any

from nbdist.engine.frameworks.jax.context import mesh_in_context
from nbdist.engine.frameworks.jax.meshes import Meshes
from nbdist.engine.frameworks.keras.distribution import SetDistribution, describe_distribution


def context_mesh(meshes: Meshes) -> dict[str, Any] | None:
    """The calling thread's mesh in context, as `nbdist.contract.snapshot.Mesh`; None where there is none."""
    mesh = mesh_in_context()
    return meshes.describe(mesh) if mesh is not None else None


def keras_distribution(meshes: Meshes) -> dict[str, Any] | None:
    """The calling thread's distribution, as `nbdist.contract.snapshot.Distribution`; None for none."""
    noted = SetDistribution(threading.get_ident())
    noted.read()
    distribution = noted.get()
    if distribution is None:
        return None
    described, mesh = describe_distribution(distribution, meshes)
    names = ("kind", "batch_axis", "auto_shard", "rules")
    return {**{name: described[name] for name in names}, "mesh": mesh}
