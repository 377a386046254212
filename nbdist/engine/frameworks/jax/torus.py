"""Placement of a mesh on the network of a pod, as JAX chooses it; no back end is started."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def mesh_over(sizes: Sequence[int], devices: Sequence[Any]) -> tuple[Any, bool] | None:
    """Return the devices in the shape of a mesh, in the order of `jax.make_mesh`.

    Source: `jax.experimental.mesh_utils.create_device_mesh`. It reads `device_kind`, `platform`, `coords`,
    `core_on_chip`, `process_index` and `slice_index` of a device, and accepts any object that has them.

    Args:
      sizes: The sizes of the mesh's axes.
      devices: The devices of one slice, or stand-ins for them, in the order of `jax.devices()`.

    Returns:
      The array of devices, and whether an axis takes a part of a dimension of the network, which
      `allow_split_physical_axes` allows. None if JAX finds no order, or reads an attribute that stand-ins lack.
    """
    from jax.experimental import mesh_utils

    for split in (False, True):
        try:
            grid = mesh_utils.create_device_mesh(
                tuple(sizes), devices=list(devices), allow_split_physical_axes=split
            )
        except NotImplementedError:  # raised where a dimension would have to be split
            continue
        except (AttributeError, AssertionError, TypeError, ValueError):
            return None
        return grid, split
    return None
