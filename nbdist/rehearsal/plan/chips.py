"""Data of each generation of TPU: memory, speeds, links, and how its slices are named.

Each row names the page with its figures. A figure that no page gives is None, and is not shown.
Source: imports nothing outside the standard library.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

GB = 1024**3
"""The unit that the pages call GiB, and mean by GB where they speak of memory."""

SHAPES_2D = ((1, 1), (2, 2), (2, 4), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16))
"""Slices of v5e and v6e. Source: https://docs.cloud.google.com/tpu/docs/v6e"""

SMALL_3D = ((2, 2, 1), (2, 2, 2), (2, 2, 4), (2, 4, 4))
"""Slices of less than a cube of 4 × 4 × 4. Source: https://docs.cloud.google.com/tpu/docs/v5p, and libtpu."""

CUBE = 4
"""Larger slices are made of cubes of this edge, so that each dimension is a multiple of it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chip:
    """One generation of TPU.

    Attributes:
      name: libtpu's name, such as `v5e`.
      aliases: Other names in use.
      kind: JAX's name for a device of it.
      devices: JAX's devices of one chip: 2 where each TensorCore is one.
      counts: The unit of the number in a name such as `v5p-8`; a chip has `cores` TensorCores.
      cores: TensorCores of one chip.
      memory_bytes: HBM of one chip.
      bf16_flops: Peak of one chip, in operations a second.
      hbm_bytes_per_s: Bandwidth of its memory.
      ici_links: Links to neighbouring chips.
      ici_bytes_per_s: Bandwidth of all links of a chip together, both directions; None where no page says.
      dimensions: Dimensions of the network.
      shapes: All slices, where they are few; else slices up to a pod are made of cubes, beside `SMALL_3D`.
      pod: Chips of the largest slice.
      wraps: Which dimensions have links from the last chip to the first: those as long as the pod's (`full`), all
        of a slice of whole cubes (`cubes`); None where no page says.
      source: The page with the figures.
    """

    name: str
    aliases: tuple[str, ...]
    kind: str
    devices: int
    counts: Literal["chips", "cores"]
    cores: int
    memory_bytes: int
    bf16_flops: float
    hbm_bytes_per_s: float
    ici_links: int
    ici_bytes_per_s: float | None
    dimensions: int
    shapes: tuple[tuple[int, ...], ...]
    pod: int
    wraps: Literal["full", "cubes"] | None
    source: str

    @property
    def device_memory_bytes(self) -> int:
        """HBM of one of JAX's devices."""
        return self.memory_bytes // self.devices


CHIPS = (
    Chip(
        name="v2",
        aliases=(),
        kind="TPU v2",
        devices=2,
        counts="cores",
        cores=2,
        memory_bytes=16_000_000_000,
        bf16_flops=46e12,
        hbm_bytes_per_s=716e9,
        ici_links=4,
        ici_bytes_per_s=None,
        dimensions=2,
        shapes=((2, 2), (4, 4), (8, 8), (8, 16), (16, 16)),
        pod=256,
        wraps=None,
        source="https://docs.jax.dev/en/latest/pallas/tpu/hardware.html",
    ),
    Chip(
        name="v3",
        aliases=(),
        kind="TPU v3",
        devices=2,
        counts="cores",
        cores=2,
        memory_bytes=32 * GB,
        bf16_flops=123e12,
        hbm_bytes_per_s=900e9,
        ici_links=4,
        ici_bytes_per_s=None,
        dimensions=2,
        shapes=((2, 2), (4, 4), (4, 8), (8, 8), (8, 16), (16, 16), (16, 32), (32, 32)),
        pod=1024,
        wraps=None,
        source="https://docs.cloud.google.com/tpu/docs/v3",
    ),
    Chip(
        name="v4",
        aliases=("v4p",),
        kind="TPU v4",
        devices=1,
        counts="cores",
        cores=2,
        memory_bytes=32 * GB,
        bf16_flops=275e12,
        hbm_bytes_per_s=1200e9,
        ici_links=6,
        ici_bytes_per_s=None,
        dimensions=3,
        shapes=(),
        pod=4096,
        wraps="cubes",
        source="https://docs.cloud.google.com/tpu/docs/v4",
    ),
    Chip(
        name="v5e",
        aliases=("v5litepod", "v5lite"),
        kind="TPU v5 lite",
        devices=1,
        counts="chips",
        cores=1,
        memory_bytes=16 * GB,
        bf16_flops=197e12,
        hbm_bytes_per_s=819e9,
        ici_links=4,
        ici_bytes_per_s=400e9,
        dimensions=2,
        shapes=SHAPES_2D,
        pod=256,
        wraps="full",
        source="https://docs.cloud.google.com/tpu/docs/v5e",
    ),
    Chip(
        name="v5p",
        aliases=("v5",),
        kind="TPU v5",
        devices=1,
        counts="cores",
        cores=2,
        memory_bytes=95 * GB,
        bf16_flops=459e12,
        hbm_bytes_per_s=2765e9,
        ici_links=6,
        ici_bytes_per_s=1200e9,
        dimensions=3,
        shapes=(),
        pod=8960,
        wraps="cubes",
        source="https://docs.cloud.google.com/tpu/docs/v5p",
    ),
    Chip(
        name="v6e",
        aliases=("trillium", "v6litepod"),
        kind="TPU v6 lite",
        devices=1,
        counts="chips",
        cores=1,
        memory_bytes=32 * GB,
        bf16_flops=918e12,
        hbm_bytes_per_s=1638e9,
        ici_links=4,
        ici_bytes_per_s=800e9,
        dimensions=2,
        shapes=SHAPES_2D,
        pod=256,
        wraps="full",
        source="https://docs.cloud.google.com/tpu/docs/tpu7x",
    ),
    Chip(
        name="tpu7x",
        aliases=("v7x", "tpu7", "ironwood"),
        kind="TPU7x",
        devices=2,
        counts="cores",
        cores=2,
        memory_bytes=192 * GB,
        bf16_flops=2307e12,
        hbm_bytes_per_s=7380e9,
        ici_links=6,
        ici_bytes_per_s=1200e9,
        dimensions=3,
        shapes=(),
        pod=9216,
        wraps=None,
        source="https://docs.cloud.google.com/tpu/docs/tpu7x",
    ),
)
"""All generations, oldest first. The number of devices of a chip is the answer of libtpu 0.0.42, for v4 the one
JAX asks for in a mesh. Where a v5e or v6e wraps around is from https://jax-ml.github.io/scaling-book/tpus, for v4
and v5p from their pages."""

NAMES = {name: chip for chip in CHIPS for name in (chip.name, *chip.aliases)}
"""Each chip by all its names."""
