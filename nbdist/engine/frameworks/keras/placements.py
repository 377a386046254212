"""How meshes of Keras' lie on another number of processes; arrays are those of its back end."""

from __future__ import annotations

import sys
from typing import Any

from nbdist.engine.frameworks.jax import placements, resized

ANEW = "keras mesh anew"


class Placements(placements.Placements):
    """See `nbdist.engine.frameworks.jax.placements.Placements`."""

    def referent(self, reference: Any) -> Any:
        """Made of the devices that Keras lists here."""
        if reference[0] != ANEW:
            return super().referent(reference)
        distribution = sys.modules["keras"].distribution
        _, shape, names = reference
        return distribution.DeviceMesh(shape, names, distribution.list_devices())


class Resized(resized.Resized, Placements):
    """See `nbdist.engine.frameworks.jax.resized.Resized`."""

    def reference(self, value: Any) -> Any | None:
        """As for JAX's meshes: one over all devices is made anew."""
        if type(value) is not sys.modules["keras"].distribution.DeviceMesh:
            return super().reference(value)
        sizes = dict(zip(value.axis_names, value.shape, strict=True))
        return ANEW, self.sizes(sizes), tuple(value.axis_names)
