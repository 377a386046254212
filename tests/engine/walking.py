"""A walk over a namespace, with what it met."""

from typing import Any

import jax

from nbdist.engine.frameworks import libraries, packages
from nbdist.engine.frameworks.jax import objects
from nbdist.engine.probe.walk import Bounds, Walk


class Met:
    """What one walk met: arrays by path, and meshes."""

    def __init__(self, namespace: dict[str, Any], **bounds: int) -> None:
        self.arrays: dict[str, Any] = {}
        self.meshes: list[Any] = []
        walk = Walk(
            found=self._found,
            mesh=self.meshes.append,
            arrays=(jax.Array,),
            meshes=(jax.sharding.Mesh,),
            packages=packages(),
            libraries=libraries(),
            bounds=Bounds(**bounds),
        )
        self.omitted = walk.run(namespace)

    def _found(self, path: str, array: Any) -> bool:
        self.arrays[path] = array
        return not array.is_deleted()


def paths(namespace: dict[str, Any], **bounds: int) -> set[str]:
    """The paths met; each is evaluated and must give the very array, or an NNX Variable that stands for it."""
    met = Met(namespace, **bounds)
    for path, array in met.arrays.items():
        assert objects.unwrapped(eval(path, dict(namespace))) is array, path
    return set(met.arrays)
