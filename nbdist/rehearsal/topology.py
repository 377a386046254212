"""Topologies of pods as people write them, `v5e-256`, `v5p:4x4x8`, `4x4x4`, and the chips that they are made of.

An error about an unknown topology names near ones. Each row of `CHIPS` names the page with its figures; a figure
that no page gives is None, and is not shown.

Source: imports nothing outside the standard library.
"""

from __future__ import annotations

import difflib
import itertools
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from nbdist.errors import OptionError
from nbdist.notation import count_text

GB = 1024**3
"""The unit that the pages call GiB, or GB when they mean memory."""

SLICES_V2 = ((2, 2), (4, 4), (8, 8), (8, 16), (16, 16))
SLICES_V3 = ((2, 2), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32))
SLICES_E = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
"""Slices of v5e and v6e. Source: https://docs.cloud.google.com/tpu/docs/v6e"""

SMALL_3D = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
"""Slices of less than a cube of 4 × 4 × 4. Source: https://docs.cloud.google.com/tpu/docs/v5p, and libtpu."""

CUBE = 4
"""Larger slices are made of cubes of this edge, so that each dimension is a multiple of it."""

MOST_NEAR = 4
"""Largest number of topologies named in an error about an unknown one."""

_COUNTED = re.compile(r"([a-z]+\d*[a-z]*|v\d+[a-z]*)-(\d+)")
_SHAPED = re.compile(r"(?:([a-z]+\d*[a-z]*)[:-])?(\d+(?:x\d+){1,2})")
_EXAMPLES = "v5e-256, v5litepod-256, v5e:16x16, v5p:4x4x8, or 4x4x4 where the chip does not matter"


@dataclass(frozen=True, slots=True)
class Chip:
    """One generation of TPU.

    Attributes:
      name: libtpu's name, such as `v5e`.
      kind: JAX's name for a device of it.
      devices: JAX's devices of one chip: 2 if each TensorCore is a device.
      cores: TensorCores of one chip, which the number in a name such as `v5p-8` counts.
      memory_bytes: HBM of one chip.
      bf16_flops: Peak of one chip, in operations a second.
      hbm_bytes_per_s: Bandwidth of its memory.
      ici_bytes_per_s: Bandwidth of all links of a chip together, both directions; None if no page says.
      wraps: Which dimensions have links from the last chip to the first: those as long as the pod's (`full`), all
        of a slice of whole cubes (`cubes`); None if no page says.
      listed: All slices, if they are few; else the number of chips of the largest slice: slices are then
        `SMALL_3D` or made of cubes.
      source: The page with the figures.
      aliases: Other names in use.
    """

    name: str
    kind: str
    devices: int
    cores: int
    memory_bytes: int
    bf16_flops: float
    hbm_bytes_per_s: float
    ici_bytes_per_s: float | None
    wraps: Literal["full", "cubes"] | None
    listed: tuple[tuple[int, ...], ...] | int
    source: str
    aliases: tuple[str, ...] = ()

    @property
    def device_memory_bytes(self) -> int:
        """HBM of one of JAX's devices."""
        return self.memory_bytes // self.devices

    @property
    def made_of_cubes(self) -> bool:
        """Return whether its network has three dimensions, with larger slices made of cubes."""
        return isinstance(self.listed, int)

    @property
    def dimensions(self) -> int:
        """Dimensions of the network."""
        return 3 if self.made_of_cubes else 2

    @property
    def ici_links(self) -> int:
        """Links to neighbouring chips: two a dimension."""
        return 2 * self.dimensions

    @property
    def pod(self) -> int:
        """Chips of the largest slice."""
        return self.listed if isinstance(self.listed, int) else math.prod(self.listed[-1])

    @property
    def shapes(self) -> tuple[tuple[int, ...], ...]:
        """Shapes of all slices, each once, in the order in which they are listed."""
        if not isinstance(self.listed, int):
            return self.listed
        cubes = self.listed // CUBE**3
        return (*SMALL_3D, *(tuple(CUBE * n for n in sizes) for sizes in _sizes(cubes)))


_TPU, _JAX = "https://docs.cloud.google.com/tpu/docs/", "https://docs.jax.dev/en/latest/pallas/tpu/"

CHIPS = (
    #    name   JAX's name  devices, cores, HBM, operations and bytes a second, those of links, rings, slices
    Chip("v2", "TPU v2",      2, 2, 16_000_000_000, 46e12, 716e9,  None,   None,    SLICES_V2,
         f"{_JAX}hardware.html"),
    Chip("v3", "TPU v3",      2, 2, 32 * GB,  123e12,  900e9,  None,   None,    SLICES_V3, f"{_TPU}v3"),
    Chip("v4", "TPU v4",      1, 2, 32 * GB,  275e12,  1200e9, None,   "cubes", 4096, f"{_TPU}v4",
         ("v4p",)),
    Chip("v5e", "TPU v5 lite", 1, 1, 16 * GB,  197e12,  819e9,  400e9,  "full",  SLICES_E, f"{_TPU}v5e",
         ("v5litepod", "v5lite")),
    Chip("v5p", "TPU v5",     1, 2, 95 * GB,  459e12,  2765e9, 1200e9, "cubes", 8960, f"{_TPU}v5p",
         ("v5",)),
    Chip("v6e", "TPU v6 lite", 1, 1, 32 * GB,  918e12,  1638e9, 800e9,  "full",  SLICES_E,
         f"{_TPU}tpu7x", ("trillium", "v6litepod")),
    Chip("tpu7x", "TPU7x",    2, 2, 192 * GB, 2307e12, 7380e9, 1200e9, None,    9216, f"{_TPU}tpu7x",
         ("v7x", "tpu7", "ironwood")),
)  # fmt: skip
"""All generations, oldest first. The number of devices of a chip is the answer of libtpu 0.0.42, for v4 the one
JAX asks for in a mesh. Where a v5e or v6e wraps around is from https://jax-ml.github.io/scaling-book/tpus, for v4
and v5p from their pages."""

NAMES = {name: chip for chip in CHIPS for name in (chip.name, *chip.aliases)}
"""Each chip by all its names."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Slices of one pod, or of several.

    Attributes:
      chip: The generation of their chips; None if only the shape was given.
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
    def counted_name(self) -> str:
        """Name of one slice as Google's accelerator types have it, `v5p-8`; empty if the chip is not known."""
        if self.chip is None:
            return ""
        name = "v5litepod" if self.chip.name == "v5e" else self.chip.name
        return f"{name}-{math.prod(self.shape) * self.chip.cores}"

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
    def device_memory_bytes(self) -> int | None:
        """Memory of one device; None if the chip is not known."""
        return self.chip.device_memory_bytes if self.chip else None

    @property
    def wraps(self) -> tuple[bool, ...] | None:
        """Return for each dimension whether a link leads from its last chip to its first; None if not known."""
        if self.chip is None or self.chip.wraps is None:
            return None
        if self.chip.wraps == "cubes":
            cubes = all(size % CUBE == 0 for size in self.shape)
            return (cubes,) * len(self.shape)
        longest = max(map(max, self.chip.shapes))
        return tuple(size == longest for size in self.shape)

    def __str__(self) -> str:
        """Return `v5e:16x16`, or `4 slices of v5e:16x16`."""
        return self.name if self.slices == 1 else f"{self.slices} slices of {self.name}"


def read_topology(text: str, *, slices: int = 1) -> Topology:
    """Return the topology that a text names.

    Args:
      text: `v5e-256` or `v5litepod-256` (of v2, v3, v4, v5p and tpu7x the number counts TensorCores, two a chip,
        as Google counts them), `v5e:16x16`, or `4x4x4` alone.
      slices: The number of such slices.

    Raises:
      OptionError: There is no such topology; the error names near ones, or the known ones.
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
    chip = _chip(re.split(r"[:-]", said)[0], text)
    raise OptionError(
        f"{text!r} does not say how large the slice is. Known: {_listed(chip.shapes, chip)}."
    )


def topology_text(topology: Topology) -> str:
    """Return `v5e:16x16, 256 chips`, with the slices, and the devices if a chip has several."""
    parts = [str(topology), count_text(topology.chips, "chip")]
    if topology.devices != topology.chips:
        parts.append(count_text(topology.devices, "device"))
    return ", ".join(parts)


def _chip(name: str, text: str) -> Chip:
    if name in NAMES:
        return NAMES[name]
    alike = difflib.get_close_matches(name, NAMES, n=len(NAMES))
    alike.sort(key=lambda one: not one.startswith(name[:2]))
    known = dict.fromkeys([*(NAMES[one].name for one in alike), *(chip.name for chip in CHIPS)])
    raise OptionError(
        f"no topology {text!r} is known: no chip is called {name!r}. Known chips: {', '.join(known)}. "
        f"Write {_EXAMPLES}."
    )


def _known_shape(chip: Chip | None, shape: tuple[int, ...], text: str) -> tuple[int, ...]:
    """Return the shape as listed, smaller sizes first: a rotated slice has the same name."""
    if 0 in shape:
        raise OptionError(f"{text!r} has no chips: each dimension is 1 or more.")
    if chip is None:
        return shape
    for known in chip.shapes:
        if sorted(known) == sorted(shape):
            return known
    what = (
        f"{chip.name} is a torus of {chip.dimensions} dimensions"
        if len(shape) != chip.dimensions
        else f"{math.prod(shape)} chips are no slice of {chip.name} in this shape"
    )
    nearest = _listed(_nearest(chip, math.prod(shape)), chip)
    raise OptionError(f"no topology {text!r} is known: {what}. Nearest: {nearest}.{_rule(chip)}")


def _counted_shape(chip: Chip, count: int, text: str) -> tuple[int, ...]:
    """Return the most compact slice with this number in its name."""
    fitting = [shape for shape in chip.shapes if math.prod(shape) * chip.cores == count]
    if fitting:
        return min(fitting, key=lambda shape: (sum(shape), max(shape)))
    counts = "" if chip.cores == 1 else f" The number counts TensorCores, {chip.cores} a chip."
    nearest = _listed(_nearest(chip, max(count // chip.cores, 1)), chip)
    raise OptionError(f"no topology {text!r} is known. Nearest: {nearest}.{counts}{_rule(chip)}")


def _rule(chip: Chip) -> str:
    if not chip.made_of_cubes:
        return f" {chip.name} has slices of up to {chip.pod} chips."
    return f" From {CUBE}x{CUBE}x{CUBE} on each dimension is a multiple of {CUBE}, up to {chip.pod} chips."


def _sizes(most: int) -> Iterable[tuple[int, int, int]]:
    """Yield three numbers, none smaller than the one before, whose product is at most `most`."""
    for a in range(1, most + 1):
        if a**3 > most:
            return
        for b in range(a, most // a + 1):
            for c in range(b, most // (a * b) + 1):
                yield a, b, c


def _nearest(chip: Chip, chips: int) -> list[tuple[int, ...]]:
    """Return the most compact slice of each size, the nearest sizes first."""
    ordered = sorted(chip.shapes, key=lambda shape: (math.prod(shape), sum(shape)))
    compact = [next(same) for _, same in itertools.groupby(ordered, key=math.prod)]
    return sorted(compact, key=lambda shape: abs(math.log(math.prod(shape) / chips)))


def _listed(shapes: Iterable[tuple[int, ...]], chip: Chip) -> str:
    topologies = [Topology(chip=chip, shape=shape) for shape in itertools.islice(shapes, MOST_NEAR)]
    return ", ".join(f"{one.name} ({one.counted_name})" for one in topologies)
