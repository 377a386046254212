"""Topologies and meshes as people write them: `v5e-256`, `v5p:4x4x8`, `4x4x4`; `data=16,model=16`.

The axes of a mesh go over the devices of a topology. An error names the topologies that are near, or the meshes
that a number of devices allows.

Imports nothing outside the standard library.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks import imported
from nbdist.errors import OptionError
from nbdist.notation import count_text
from nbdist.rehearsal.plan.chips import CHIPS, CUBE, NAMES, SMALL_3D, Chip
from nbdist.spelling import option

MOST_NEAR = 4
"""Largest number of topologies that are named where one is unknown."""

_COUNTED = re.compile(r"([a-z]+\d*[a-z]*|v\d+[a-z]*)-(\d+)")
_SHAPED = re.compile(r"(?:([a-z]+\d*[a-z]*)[:-])?(\d+(?:x\d+){1,2})")
_EXAMPLES = "v5e-256, v5litepod-256, v5e:16x16, v5p:4x4x8, or 4x4x4 where the chip does not matter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Slices of one pod, or of several.

    Attributes:
      chip: The generation of their chips; None where only the shape was given.
      shape: The shape of one slice, in chips.
      slices: The number of slices; they reach each other through the network of the data center.
    """

    chip: Chip | None
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def name(self) -> str:
        """Name of one slice, as libtpu has it: `v5e:16x16`; `4x4x4` where the chip is not known."""
        shape = "x".join(map(str, self.shape))
        return f"{self.chip.name}:{shape}" if self.chip else shape

    @property
    def chips(self) -> int:
        """Number of chips of all slices."""
        return math.prod(self.shape) * self.slices

    @property
    def devices_per_chip(self) -> int:
        """Number of devices of a chip; 1 where the chip is not known."""
        return self.chip.devices if self.chip else 1

    @property
    def devices(self) -> int:
        """Number of devices of all slices, as JAX counts them."""
        return self.chips * self.devices_per_chip

    @property
    def wraps(self) -> tuple[bool, ...] | None:
        """Return for each dimension whether a link leads from its last chip to its first; None if not known."""
        if self.chip is None or self.chip.wraps is None:
            return None
        if self.chip.wraps == "cubes":
            cubes = all(size % CUBE == 0 for size in self.shape)
            return (cubes,) * len(self.shape)
        longest = max(max(shape) for shape in self.chip.shapes)
        return tuple(size == longest for size in self.shape)

    def __str__(self) -> str:
        """Return `v5e:16x16`, or `4 slices of v5e:16x16`."""
        return self.name if self.slices == 1 else f"{self.slices} slices of {self.name}"


def read_topology(text: str, *, slices: int = 1) -> Topology:
    """Return a topology from what a person calls it.

    Args:
      text: `v5e-256` or `v5litepod-256` (of v2, v3, v4, v5p and tpu7x the number counts TensorCores, two a chip,
        as Google counts them), `v5e:16x16`, or `4x4x4` alone.
      slices: The number of such slices.

    Raises:
      OptionError: There is no such topology; the error says which are near, or what is known.
    """
    if slices < 1:
        raise OptionError(f"{slices} slices: allowed are 1 or more.")
    said = text.strip().lower().replace("×", "x").removeprefix("tpu ").replace("tpu-v", "v")
    if shaped := _SHAPED.fullmatch(said):
        chip = _chip(shaped[1], text) if shaped[1] else None
        shape = tuple(map(int, shaped[2].split("x")))
        return Topology(chip=chip, shape=_known_shape(chip, shape, text), slices=slices)
    if counted := _COUNTED.fullmatch(said):
        chip = _chip(counted[1], text)
        return Topology(chip=chip, shape=_counted_shape(chip, int(counted[2]), text), slices=slices)
    name = re.split(r"[:-]", said)[0]
    chip = _chip(name, text)
    raise OptionError(
        f"{text!r} does not say how large the slice is. Known: {_listed(_shapes(chip), chip)}."
    )


def counted_name(topology: Topology) -> str:
    """Return `v5p-8`: one slice as Google's accelerator types name it; empty where the chip is not known."""
    chip = topology.chip
    if chip is None:
        return ""
    count = math.prod(topology.shape) * (chip.cores if chip.counts == "cores" else 1)
    return f"{'v5litepod' if chip.name == 'v5e' else chip.name}-{count}"


def counting_hint(topology: Topology, wanted: int) -> str:
    """Return a sentence for people who took the number in a name such as `v5p-8960` for chips; empty for others.

    Args:
      topology: The topology that the name stands for.
      wanted: The number of devices that the person expects.
    """
    chip = topology.chip
    each = chip.cores if chip is not None and chip.counts == "cores" else 1
    if chip is None or each == chip.devices or wanted != topology.devices * each // chip.devices:
        return ""
    return (
        f" The number in {counted_name(topology)} counts TensorCores, {each} a chip: {wanted} chips of one slice "
        f"are {chip.name}-{wanted * each}."
    )


def _chip(name: str, text: str) -> Chip:
    if name in NAMES:
        return NAMES[name]
    alike = difflib.get_close_matches(name, NAMES, n=len(NAMES))
    alike.sort(key=lambda one: not one.startswith(name[:2]))
    near = list(dict.fromkeys(NAMES[one].name for one in alike))
    known = [*near, *(chip.name for chip in CHIPS if chip.name not in near)]
    raise OptionError(
        f"no topology {text!r} is known: no chip is called {name!r}. Known chips: {', '.join(known)}. "
        f"Write {_EXAMPLES}."
    )


def _known_shape(chip: Chip | None, shape: tuple[int, ...], text: str) -> tuple[int, ...]:
    """Return the shape as it is listed, smaller sizes first: the same slice turned round has the same name."""
    if 0 in shape:
        raise OptionError(f"{text!r} has no chips: each dimension is 1 or more.")
    if chip is None:
        return shape
    for known in _shapes(chip):
        if sorted(known) == sorted(shape) and len(known) == len(shape):
            return known
    what = (
        f"{chip.name} is a torus of {chip.dimensions} dimensions"
        if len(shape) != chip.dimensions
        else f"{math.prod(shape)} chips are no slice of {chip.name} in this shape"
    )
    raise OptionError(
        f"no topology {text!r} is known: {what}. Nearest: {_listed(_nearest(chip, math.prod(shape)), chip)}."
        + _rule(chip)
    )


def _counted_shape(chip: Chip, count: int, text: str) -> tuple[int, ...]:
    """Return the most compact slice with this number in its name."""
    each = chip.cores if chip.counts == "cores" else 1
    fitting = [shape for shape in _shapes(chip) if math.prod(shape) * each == count]
    if fitting:
        return min(fitting, key=lambda shape: (sum(shape), max(shape)))
    counts = "" if each == 1 else f" The number counts TensorCores, {each} a chip."
    nearest = _listed(_nearest(chip, max(count // each, 1)), chip)
    raise OptionError(f"no topology {text!r} is known. Nearest: {nearest}.{counts}{_rule(chip)}")


def _rule(chip: Chip) -> str:
    if chip.shapes:
        return f" {chip.name} has slices of up to {chip.pod} chips."
    return f" From {CUBE}x{CUBE}x{CUBE} on each dimension is a multiple of {CUBE}, up to {chip.pod} chips."


def _shapes(chip: Chip) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of all slices of a chip, each once, in the order in which they are listed."""
    if chip.shapes:
        return chip.shapes
    cubes = chip.pod // CUBE**3
    return (*SMALL_3D, *(tuple(CUBE * n for n in sizes) for sizes in _sizes(cubes)))


def _sizes(most: int) -> Iterable[tuple[int, int, int]]:
    """Yield three numbers, none smaller than the one before, whose product is at most `most`."""
    for a in range(1, most + 1):
        if a**3 > most:
            return
        for b in range(a, most // a + 1):
            if a * b * b > most:
                break
            for c in range(b, most // (a * b) + 1):
                yield a, b, c


def _nearest(chip: Chip, chips: int) -> list[tuple[int, ...]]:
    """Return the most compact slice of each size, the nearest sizes first."""
    ordered = sorted(_shapes(chip), key=lambda shape: (math.prod(shape), sum(shape)))
    compact = [next(same) for _, same in itertools.groupby(ordered, key=math.prod)]
    return sorted(compact, key=lambda shape: abs(math.log(math.prod(shape) / chips)))


def _listed(shapes: Iterable[tuple[int, ...]], chip: Chip) -> str:
    topologies = [Topology(chip=chip, shape=shape) for shape in itertools.islice(shapes, MOST_NEAR)]
    return ", ".join(f"{one.name} ({counted_name(one)})" for one in topologies)


def topology_text(topology: Topology) -> str:
    """Return `v5e:16x16, 256 chips`; with the slices, and with the devices where a chip has several."""
    parts = [str(topology), count_text(topology.chips, "chip")]
    if topology.devices != topology.chips:
        parts.append(count_text(topology.devices, "device"))
    return ", ".join(parts)


Axes = Mapping[str, int]
"""The size of each axis, in the order of the mesh."""

MOST_FITTING = 4
"""Largest number of fitting meshes that are named."""

MOST_AXES = 4
"""Largest number of axes of a mesh for which others that would fit are searched."""

REST = -1
"""The size of an axis that takes what the others leave."""


def axes_text(axes: Axes) -> str:
    """Return `data=16 × model=16`."""
    return " × ".join(f"{name}={size}" for name, size in axes.items())


def typed_text(axes: Axes) -> str:
    """Return `data=16,model=16`, as a person types it."""
    return ",".join(f"{name}={size}" for name, size in axes.items())


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
    """Return the axes; the one of size -1 gets what the others leave.

    Raises:
      OptionError: More than one is to take the rest, or the others do not divide the devices.
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
    return {name: devices // others if size == REST else size for name, size in axes.items()}


def check_devices(axes: Axes, devices: int, where: str, hint: str = "") -> None:
    """Refuse a mesh that does not take all devices.

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
    """Return over how many slices each axis goes: the first axis that can goes over all; None where none can."""
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
      OptionError: No axis can go over all slices.
    """
    found = slices_of(axes, slices)
    if found is None:
        raise OptionError(
            f"mesh {axes_text(axes)} cannot lie over {slices} slices: one axis goes over all of them, so its size "
            f"must be a multiple of {slices}."
        )
    return found


def fitting(axes: Axes, devices: int) -> Iterator[dict[str, int]]:
    """Yield meshes of the same axes that take all devices; first those with the fewest and least changes."""
    names, sizes = list(axes), list(axes.values())
    if not names or len(names) > MOST_AXES:
        return
    every = _products(devices, len(names))

    def distance(found: tuple[int, ...]) -> tuple[int, float]:
        changed = [(a, b) for a, b in zip(sizes, found, strict=True) if a != b]
        return len(changed), sum(abs(math.log(a / b)) for a, b in changed)

    for found in sorted(every, key=distance):
        yield dict(zip(names, found, strict=True))


def _products(number: int, factors: int) -> list[tuple[int, ...]]:
    """Return all ways to write a number as a product of so many factors."""
    if factors == 1:
        return [(number,)]
    divisors = [n for n in range(1, number + 1) if number % n == 0]
    return [
        (first, *rest) for first in divisors for rest in _products(number // first, factors - 1)
    ]


def _read_text(text: str) -> dict[str, int]:
    axes: dict[str, int] = {}
    for part in text.replace("×", ",").replace(";", ",").split(","):
        name, is_named, size = (word.strip() for word in part.partition("="))
        if not is_named or not name or not size.removeprefix("-").isdecimal():
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
    found = (one.mesh_axes(mesh) for one in imported())
    return next((axes for axes in found if axes is not None), None)
