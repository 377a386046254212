"""Topologies as people say them: `v5e-256`, `v5p:4x4x8`, `4x4x4`.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

from nbdist.errors import OptionError
from nbdist.quantities import count_text
from nbdist.rehearsal.chips import CHIPS, CUBE, NAMES, SMALL_3D, Chip

MOST_NEAR = 4
"""So many topologies are named where one is unknown."""

_COUNTED = re.compile(r"([a-z]+\d*[a-z]*|v\d+[a-z]*)-(\d+)")
_SHAPED = re.compile(r"(?:([a-z]+\d*[a-z]*)[:-])?(\d+(?:x\d+){1,2})")
_EXAMPLES = "v5e-256, v5litepod-256, v5e:16x16, v5p:4x4x8, or 4x4x4 where the chip does not matter"


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Slices of one pod, or of several.

    Attributes:
      chip: What they are made of; None where only the shape was said.
      shape: Of one slice, in chips.
      slices: How many there are; they reach each other through the network of the data center.
    """

    chip: Chip | None
    shape: tuple[int, ...]
    slices: int = 1

    @property
    def name(self) -> str:
        """Of one slice, as libtpu has it: `v5e:16x16`; `4x4x4` where the chip is not known."""
        shape = "x".join(map(str, self.shape))
        return f"{self.chip.name}:{shape}" if self.chip else shape

    @property
    def chips(self) -> int:
        """Of all slices."""
        return math.prod(self.shape) * self.slices

    @property
    def devices_per_chip(self) -> int:
        """1 where the chip is not known."""
        return self.chip.devices if self.chip else 1

    @property
    def devices(self) -> int:
        """Of all slices, as JAX counts them."""
        return self.chips * self.devices_per_chip

    @property
    def wraps(self) -> tuple[bool, ...] | None:
        """Which dimensions have links from the last chip to the first; None where that is not known."""
        if self.chip is None or self.chip.wraps is None:
            return None
        if self.chip.wraps == "cubes":
            cubes = all(size % CUBE == 0 for size in self.shape)
            return (cubes,) * len(self.shape)
        longest = max(max(shape) for shape in self.chip.shapes)
        return tuple(size == longest for size in self.shape)

    def __str__(self) -> str:
        """`v5e:16x16`, `4 slices of v5e:16x16`."""
        return self.name if self.slices == 1 else f"{self.slices} slices of {self.name}"


def read_topology(text: str, *, slices: int = 1) -> Topology:
    """A topology from what a person calls it.

    Args:
      text: `v5e-256` or `v5litepod-256` (of v2, v3, v4, v5p and tpu7x the number counts TensorCores, two a chip,
        as Google counts them), `v5e:16x16`, or `4x4x4` alone.
      slices: How many such slices there are.

    Raises:
      OptionError: There is no such topology; the text says which are near, or what is known.
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
    """`v5e-256`: one slice as Google's accelerator types name it; empty where the chip is not known."""
    chip = topology.chip
    if chip is None:
        return ""
    count = math.prod(topology.shape) * (chip.cores if chip.counts == "cores" else 1)
    return f"{'v5litepod' if chip.name == 'v5e' else chip.name}-{count}"


def counting_hint(topology: Topology, wanted: int) -> str:
    """A sentence for who took the number in a name such as `v5p-8960` for chips; empty for others.

    Args:
      topology: That the name stands for.
      wanted: How many devices the person expects.
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
    """The shape as it is listed: the smaller sizes first, as the same slice turned round has one name."""
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
    """The most compact slice of so many chips."""
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
    """All slices of a chip, each once, in its listed order."""
    if chip.shapes:
        return chip.shapes
    cubes = chip.pod // CUBE**3
    return (*SMALL_3D, *(tuple(CUBE * n for n in sizes) for sizes in _sizes(cubes)))


def _sizes(most: int) -> Iterable[tuple[int, int, int]]:
    """Three rising numbers of which the product is at most `most`."""
    for a in range(1, most + 1):
        if a**3 > most:
            return
        for b in range(a, most // a + 1):
            if a * b * b > most:
                break
            for c in range(b, most // (a * b) + 1):
                yield a, b, c


def _nearest(chip: Chip, chips: int) -> list[tuple[int, ...]]:
    """The most compact slice of each size, the nearest sizes first."""
    ordered = sorted(_shapes(chip), key=lambda shape: (math.prod(shape), sum(shape)))
    compact = [next(same) for _, same in itertools.groupby(ordered, key=math.prod)]
    return sorted(compact, key=lambda shape: abs(math.log(math.prod(shape) / chips)))


def _listed(shapes: Iterable[tuple[int, ...]], chip: Chip) -> str:
    topologies = [Topology(chip=chip, shape=shape) for shape in itertools.islice(shapes, MOST_NEAR)]
    return ", ".join(f"{one.name} ({counted_name(one)})" for one in topologies)


def topology_text(topology: Topology) -> str:
    """`v5e:16x16, 256 chips`; with the slices, and the devices where a chip has several."""
    parts = [str(topology), count_text(topology.chips, "chip")]
    if topology.devices != topology.chips:
        parts.append(count_text(topology.devices, "device"))
    return ", ".join(parts)
