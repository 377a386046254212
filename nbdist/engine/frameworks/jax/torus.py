"""How JAX lays a mesh over the network of a pod; no back end is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def mesh_over(sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
    """The devices in the shape of a mesh, as `jax.make_mesh` would order them.

    Source: `jax.experimental.mesh_utils.create_device_mesh`. It reads `device_kind`, `platform`, `coords`,
    `core_on_chip`, `process_index` and `slice_index` of a device, and takes whatever has them.

    Args:
      sizes: Of the axes of the mesh.
      devices: Of one slice, or stand-ins for them, in the order of `jax.devices()`.

    Returns:
      The array of devices, and whether an axis takes a part of a dimension of the network, which
      `allow_split_physical_axes` allows; None where JAX finds no order, or asks for more than stand-ins have.
    """
    from jax.experimental import mesh_utils

    for split in (False, True):
        try:
            grid = mesh_utils.create_device_mesh(
                tuple(sizes), devices=list(devices), allow_split_physical_axes=split
            )
        except NotImplementedError:  # what it raises where it may not split
            continue
        except (AttributeError, AssertionError, TypeError, ValueError):
            return None
        return grid, split
    return None
