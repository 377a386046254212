"""Meshes as people write them, `data=16,model=16`, and pods with a mesh over them.

A mesh must use all devices of a topology. Errors name the meshes that the number of devices allows.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks import each
from nbdist.errors import OptionError
from nbdist.notation import count_text
from nbdist.rehearsal.topology import Topology, read_topology
from nbdist.spelling import option

Axes = Mapping[str, int]
"""The size of each axis, in the order of the mesh."""

MOST_FITTING = 4
"""Largest number of fitting meshes that are named."""

MOST_AXES = 4
"""Largest number of axes of a mesh for which others that would fit are searched."""

REST = -1
"""The size of an axis that takes what the others leave."""


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
        """The mesh as `data=16,model=16`, the label that tells meshes on one pod apart."""
        return self.mesh if self.mesh is not None else "no mesh"

    def __str__(self) -> str:
        """Return `v5e:16x16, mesh data=16,model=16`."""
        slices = f"{self.slices} slices of " if self.slices > 1 else ""
        mesh = f", mesh {self.mesh}" if self.mesh is not None else ""
        return f"{slices}{self.topology}{mesh}"


def read_each(topology: str, meshes: Sequence[str], *, slices: int = 1) -> tuple[AskedPod, ...]:
    """Return the pod with each of the given meshes; without meshes, the pod alone.

    Raises:
      OptionError: There is no such topology, it names no chip, a mesh does not use all its devices, or two meshes
        are equal.
    """
    read = read_topology(topology, slices=slices)
    if read.chip is None:
        raise OptionError(
            f"{option('topology')} {topology} names no chip, and programs are compiled for one. Write "
            f"{option('topology', f'v5e:{topology}')}."
        )
    pods: list[AskedPod] = []
    for mesh in meshes or (None,):
        axes = None if mesh is None else axes_over(read, mesh)
        if axes is not None:
            check_slices(axes, slices)
        typed = None if axes is None else typed_text(axes)
        pod = AskedPod(topology=read.name, slices=slices, mesh=typed)
        if pod in pods:
            raise OptionError(
                f"{option('mesh', typed)} is given twice. Give each mesh that is to be compared once; nothing "
                "was started."
            )
        pods.append(pod)
    return tuple(pods)


def axes_text(axes: Axes) -> str:
    """Return `data=16 × model=16`."""
    return " × ".join(f"{name}={size}" for name, size in axes.items())


def typed_text(axes: Axes) -> str:
    """Return `data=16,model=16`, as a person types it."""
    return ",".join(f"{name}={size}" for name, size in axes.items())


def axes_over(topology: Topology, mesh: Any) -> dict[str, int]:
    """Return the axes of a mesh that uses all devices of a topology.

    Args:
      topology: The topology.
      mesh: The mesh, as `read_axes` reads it; a size of -1 takes what the others leave.

    Raises:
      OptionError: The mesh cannot be read, or has another number of devices; names meshes that would fit.
    """
    axes = with_rest(read_axes(mesh), topology.devices)
    check_devices(axes, topology.devices, str(topology), _counting_hint(topology, axes))
    return axes


def read_axes(mesh: Any) -> dict[str, int]:
    """Return the axes of a mesh.

    Args:
      mesh: `"data=16,model=16"`, a dict, or a mesh of JAX or Keras; a size of -1 takes what the others leave.

    Raises:
      OptionError: The mesh is none of these, or an axis has no size.
    """
    if isinstance(mesh, str):
        return _read_text(mesh)
    axes = mesh if isinstance(mesh, Mapping) else _of_framework(mesh)
    if axes is None:
        raise OptionError(
            f"{option('mesh')}: {mesh!r} is no mesh. Write "
            f"{option('mesh', 'data=16,model=16')}, or give a mesh of JAX or Keras."
        )
    for name, size in axes.items():
        if not isinstance(name, str) or isinstance(size, bool) or not isinstance(size, int):
            raise OptionError(f"{option('mesh')}: axis {name!r} of size {size!r}.")
        _check_size(name, size)
    return dict(axes)


def with_rest(axes: Axes, devices: int | None) -> dict[str, int]:
    """Return the axes; an axis of size -1 gets the devices that the others leave.

    Raises:
      OptionError: More than one axis has size -1, or the others do not divide the devices.
    """
    open_axes = [name for name, size in axes.items() if size == REST]
    if not open_axes:
        return dict(axes)
    others = math.prod(size for size in axes.values() if size != REST)
    if len(open_axes) > 1 or devices is None or devices % others:
        total = "an unknown number of devices" if devices is None else f"{devices} devices"
        raise OptionError(
            f"mesh {axes_text(axes)}: one axis of size {REST} takes what the others leave of {total}, "
            f"and the others take {others}."
        )
    return {**axes, open_axes[0]: devices // others}


def check_devices(axes: Axes, devices: int, where: str, hint: str = "") -> None:
    """Refuse a mesh that does not use all devices.

    Args:
      axes: The axes of the mesh.
      devices: The number of devices.
      where: The name of what has these devices, such as `v5e:16x16`.
      hint: A sentence for the end of the error, with a blank before it; empty for none.

    Raises:
      OptionError: The mesh has another number of devices; names meshes that would fit.
    """
    wanted = math.prod(axes.values())
    if wanted == devices:
        return
    near = [typed_text(mesh) for mesh in itertools.islice(fitting(axes, devices), MOST_FITTING)]
    would = f" These would fit: {'; '.join(near)}." if near else ""
    raise OptionError(
        f"mesh {axes_text(axes)} has {count_text(wanted, 'device')}, {where} has {devices}.{would}{hint}"
    )


def slices_of(axes: Axes, slices: int) -> dict[str, int] | None:
    """Return how many slices each axis spans: the first axis that can spans all; None if none can."""
    found = dict.fromkeys(axes, 1)
    if slices > 1:
        first = next((name for name, size in axes.items() if size % slices == 0), None)
        if first is None:
            return None
        found[first] = slices
    return found


def check_slices(axes: Axes, slices: int) -> dict[str, int]:
    """Return over how many slices each axis goes.

    Raises:
      OptionError: No axis can span all slices.
    """
    found = slices_of(axes, slices)
    if found is None:
        raise OptionError(
            f"mesh {axes_text(axes)} cannot lie over {slices} slices: one axis goes over all of them, so its size "
            f"must be a multiple of {slices}."
        )
    return found


def fitting(axes: Axes, devices: int) -> Iterator[dict[str, int]]:
    """Yield meshes of the same axes that use all devices; those with the fewest and smallest changes first."""
    names, sizes = list(axes), list(axes.values())
    if not names or len(names) > MOST_AXES:
        return

    def distance(found: tuple[int, ...]) -> tuple[int, float]:
        changed = [(a, b) for a, b in zip(sizes, found, strict=True) if a != b]
        return len(changed), sum(abs(math.log(a / b)) for a, b in changed)

    for found in sorted(_products(devices, len(names)), key=distance):
        yield dict(zip(names, found, strict=True))


def _products(number: int, factors: int) -> list[tuple[int, ...]]:
    """Return all ways to write a number as a product of `factors` factors."""
    if factors == 1:
        return [(number,)]
    divisors = [n for n in range(1, number + 1) if number % n == 0]
    return [
        (first, *rest) for first in divisors for rest in _products(number // first, factors - 1)
    ]


def _counting_hint(topology: Topology, axes: Axes) -> str:
    """Return a sentence for people who took the number in `v5p-8960` for chips; empty for others."""
    chip, wanted = topology.chip, math.prod(axes.values())
    if chip is None or chip.cores == chip.devices:
        return ""
    if wanted != topology.devices * chip.cores // chip.devices:
        return ""
    return (
        f" The number in {topology.counted_name} counts TensorCores, {chip.cores} a chip: {wanted} chips of one "
        f"slice are {chip.name}-{wanted * chip.cores}."
    )


def _read_text(text: str) -> dict[str, int]:
    axes: dict[str, int] = {}
    for part in text.replace("×", ",").replace(";", ",").split(","):
        name, _, size = (word.strip() for word in part.partition("="))
        if not name or not size.removeprefix("-").isdecimal():
            raise OptionError(
                f"{option('mesh')}: cannot read {part.strip()!r} of {text!r}. Write the size of each axis, "
                "such as data=16,model=16."
            )
        if name in axes:
            raise OptionError(f"{option('mesh')}: {text!r} has axis {name!r} twice.")
        axes[name] = int(size)
        _check_size(name, axes[name])
    return axes


def _check_size(name: str, size: int) -> None:
    if size < 1 and size != REST:
        raise OptionError(
            f"{option('mesh')}: axis {name!r} has size {size}; allowed: 1 or more, or {REST} for the rest."
        )


def _of_framework(mesh: Any) -> Mapping[str, int] | None:
    found = (one.mesh_axes(mesh) for one in each(lambda one: one.plans))
    return next((axes for axes in found if axes is not None), None)
