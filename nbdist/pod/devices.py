"""A pod that is not there, as JAX describes it: devices of libtpu's compiler, and meshes over them."""

from __future__ import annotations

from typing import Any

import jax
from jax.experimental import mesh_utils, topologies
from jax.sharding import AxisType, Mesh

from nbdist.errors import OptionError, RehearsalError
from nbdist.rehearsal.mesh import check_devices, check_slices, read_axes, with_rest
from nbdist.rehearsal.topology import Topology, counting_hint, topology_text

_WHOLE_CHIP = {"v4": "megacore"}
"""Where libtpu gives a device for each core unless it is asked for this, and JAX takes one a chip in a mesh."""


class Devices:
    """Devices of a topology.

    Args:
      topology: What they are of.
      all: In the order of `jax.devices()`; `by_id` has them by their ids.
    """

    def __init__(self, topology: Topology, all: list[Any]) -> None:
        self.topology = topology
        self.all = all
        self._each = frozenset(all)
        self.by_id = {device.id: device for device in all}

    def mesh(self, axes: Any) -> Mesh:
        """A mesh over all devices; neighbours on it are neighbours on the pod where that can be.

        Args:
          axes: As `nbdist.rehearsal.mesh.read_axes` reads them.

        Raises:
          OptionError: It does not take all devices; names meshes that would.
        """
        asked = with_rest(read_axes(axes), len(self.all))
        wanted = 1
        for size in asked.values():
            wanted *= size
        check_devices(
            asked, len(self.all), str(self.topology), counting_hint(self.topology, wanted)
        )
        slices = check_slices(asked, self.topology.slices)
        within = [size // slices[name] for name, size in asked.items()]
        if self.topology.slices > 1:
            placed = mesh_utils.create_hybrid_device_mesh(
                within, list(slices.values()), self.all, allow_split_physical_axes=True
            )
        else:
            placed = mesh_utils.create_device_mesh(within, self.all, allow_split_physical_axes=True)
        return Mesh(placed, tuple(asked), axis_types=(AxisType.Auto,) * len(asked))

    def __contains__(self, device: Any) -> bool:
        """Whether it is one of these."""
        return device in self._each

    def __str__(self) -> str:
        """`v5e:16x16, 256 chips`."""
        return topology_text(self.topology)


def describe(topology: Topology) -> Devices:
    """The devices of a topology, as libtpu describes them. It starts no TPU, and no backend of JAX.

    Args:
      topology: With its chip.

    Raises:
      OptionError: The chip is not named.
      RehearsalError: libtpu does not know this topology, or is not there.
    """
    if topology.chip is None:
        raise OptionError(
            f"{topology} does not name a chip, and programs are compiled for one: write v5e:{topology}."
        )
    slices = {"num_slices": topology.slices} if topology.slices > 1 else {}
    whole = (
        {"chip_config_name": _WHOLE_CHIP[topology.chip.name]}
        if topology.chip.name in _WHOLE_CHIP
        else {}
    )
    try:
        described = topologies.get_topology_desc(
            platform="tpu", topology_name=topology.name, **slices, **whole
        )
    except (RuntimeError, jax.errors.JaxRuntimeError) as error:
        raise RehearsalError(f"libtpu cannot describe {topology}: {error}") from error
    return Devices(topology, list(described.devices))
