"""The pods and meshes that a person asks to rehearse on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.errors import OptionError
from nbdist.rehearsal.mesh import check_devices, check_slices, read_axes, typed_text, with_rest
from nbdist.rehearsal.topology import counting_hint, read_topology
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedPod:
    """The pod of a rehearsal, and the mesh over it.

    Attributes:
      topology: Such as `v5e:16x16`.
      slices: The number of slices of this topology.
      mesh: Such as `data=16,model=16`; None for none.
    """

    topology: str
    slices: int
    mesh: str | None

    @property
    def label(self) -> str:
        """`data=16,model=16`, which tells several meshes on one pod apart."""
        return self.mesh if self.mesh is not None else "no mesh"

    def __str__(self) -> str:
        """Return `v5e:16x16, mesh data=16,model=16`."""
        slices = f"{self.slices} slices of " if self.slices > 1 else ""
        mesh = f", mesh {self.mesh}" if self.mesh is not None else ""
        return f"{slices}{self.topology}{mesh}"


def read_each(topology: str, meshes: Sequence[str], *, slices: int = 1) -> tuple[AskedPod, ...]:
    """Return a pod with each of several meshes; without meshes, the pod alone.

    Raises:
      OptionError: As `read_asked`, or two meshes are the same.
    """
    pods = tuple(read_asked(topology, mesh, slices=slices) for mesh in meshes or (None,))
    for place, pod in enumerate(pods):
        if pod in pods[:place]:
            raise OptionError(
                f"{option('mesh', pod.mesh)} is given twice. Give each mesh that is to be compared once; nothing "
                "was started."
            )
    return pods


def read_asked(topology: str, mesh: str | None, *, slices: int = 1) -> AskedPod:
    """Return a pod from the text that a person typed.

    Raises:
      OptionError: There is no such topology, it names no chip, or the mesh does not take all its devices.
    """
    read = read_topology(topology, slices=slices)
    if read.chip is None:
        raise OptionError(
            f"{option('topology')} {topology} names no chip, and programs are compiled for one. Write "
            f"{option('topology', f'v5e:{topology}')}."
        )
    axes = None
    if mesh is not None:
        axes = with_rest(read_axes(mesh), read.devices)
        total = 1
        for size in axes.values():
            total *= size
        check_devices(axes, read.devices, str(read), counting_hint(read, total))
        check_slices(axes, slices)
    return AskedPod(
        topology=read.name, slices=slices, mesh=typed_text(axes) if axes is not None else None
    )
