"""Placement of Keras' device meshes on another number of processes; the back end places the arrays."""

from __future__ import annotations

import sys
from typing import Any

from nbdist.engine.frameworks.jax import placements, resized

ANEW = "keras mesh anew"


class Placements(placements.Placements):
    """JAX's placements that also read the stand-ins of Keras' device meshes."""

    def referent(self, reference: Any) -> Any:
        """Return the object for a stand-in; a device mesh is made of the devices that Keras lists here."""
        if reference[0] != ANEW:
            return super().referent(reference)
        distribution = sys.modules["keras"].distribution
        _, shape, names = reference
        return distribution.DeviceMesh(shape, names, distribution.list_devices())


class Resized(resized.Resized, Placements):
    """JAX's placements for another number of processes that also make stand-ins for Keras' device meshes."""

    def reference(self, value: Any) -> Any | None:
        """Return a stand-in; that of a device mesh has the sizes of a mesh over the new number of devices."""
        if type(value) is not sys.modules["keras"].distribution.DeviceMesh:
            return super().reference(value)
        sizes = dict(zip(value.axis_names, value.shape, strict=True))
        return ANEW, self.sizes(sizes), tuple(value.axis_names)
