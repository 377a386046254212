"""A compiled program as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Literal

Direction = Literal["forward", "backward", "both", ""]
"""Of a gradient; `both` where the compiler made one collective of several, empty where there is no gradient."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshAxes:
    """The axes of a user's mesh.

    Attributes:
      names: Of its axes, the first changes slowest.
      shape: Their sizes.
      devices: The ids of its devices, in the mesh's order: the first axis changes slowest.
      slices: In which slice of a pod each of them is; empty where all are in one.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    devices: tuple[int, ...]
    slices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raises ValueError where these do not belong together."""
        count = len(self.devices)
        if (
            len(self.names) != len(self.shape)
            or prod(self.shape) != count
            or len(self.slices) not in (0, count)
        ):
            raise ValueError(
                f"a mesh of axes {self.names} and shape {self.shape} cannot have {len(self.devices)} devices"
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Grouping:
    """Which devices exchange data with which; collectives that agree in it share one.

    Attributes:
      groups: Places in the order of the program's mesh, or where none is known of its devices; of pairs the
        sender first.
      pairs: Whether these are the transfers of a permutation.
    """

    groups: tuple[tuple[int, ...], ...]
    pairs: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Memory:
    """Bytes on each device.

    Attributes:
      arguments: Of what the program is given.
      outputs: Of what it returns.
      temporaries: Of what lives while it runs.
      aliased: Of outputs that take the place of arguments, as donated ones do; counted in both.
      code: Of the program itself.
      limit: Of the device, for all of it; None where it is not known.
    """

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int
    limit: int | None = None

    @property
    def needed(self) -> int:
        """Bytes of all, what is aliased once."""
        return self.arguments + self.outputs + self.temporaries + self.code - self.aliased


@dataclass(frozen=True, slots=True, kw_only=True)
class Collective:
    """One operation in which devices exchange data.

    Attributes:
      kind: As XLA calls it: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `collective-permute`, ….
      axes: Those of the user's mesh along which data move; None where the devices are no axes of it.
      devices: Which exchange data with which, by their ids, where `axes` is None; shortened where there are many.
      group_size: Devices that take part together; for a permutation 2, a sender and a receiver.
      bytes: On each device, each time: of the operands, for an all-gather of its result.
      arrays: What these bytes are, such as `f32[256,256]`.
      between_slices: Whether it goes through the network between the slices of several, and not over the links
        of one.
      times: How often it runs in one run of the program; None where it lies in a loop whose turns are not known.
      in_branch: Whether it lies in a branch of a conditional; then it runs `times` at most.
      direction: Of a gradient, from the name of the operation.
      inserted: Whether XLA says that its partitioner put it there; where it does not say so nothing follows.
      fused: How it stands in the text where XLA writes it otherwise: a reduce-scatter as an all-reduce and a slice
        in one fusion; else empty.
      file: Of the user's line it comes from, or where XLA names none the value that it moves; empty where neither
        is known, like the next two.
      line: From 1; 0 where it is not known.
      function: With the names of those around it.
      operation: JAX's name of the operation, with those of its loops and transformations.
      name: Of the instruction in the text.
      grouping: Its place in `Program.groupings`; None where it is not kept.
    """

    kind: str
    axes: tuple[str, ...] | None
    devices: str
    group_size: int
    bytes: int
    arrays: tuple[str, ...]
    times: int | None
    in_branch: bool
    direction: Direction
    inserted: bool
    fused: str
    file: str
    line: int
    function: str
    operation: str
    name: str
    between_slices: bool = False
    grouping: int | None = None

    @property
    def resharding(self) -> bool:
        """Whether XLA put it in to move data, without computing: a value lies otherwise than its user needs it.

        Weights in parts that are gathered before use (FSDP) are laid out so on purpose, and are among these; a
        collective that an operation of the program stands for, such as `jax.lax.all_gather`, is not.
        """
        return self.inserted and self.kind in ("all-gather", "all-to-all", "collective-permute")

    @property
    def sent(self) -> int:
        """Bytes that a device must send each time at least, to others, whichever algorithm is used.

        n being `group_size`: (n-1)/n of the bytes, for an all-reduce twice that, as each value must be reduced
        and then be everywhere; for a permutation all bytes, or none where each device is its own target. Rounded
        down.
        """
        n = self.group_size
        if self.kind == "collective-permute":
            return 0 if self.axes == () else self.bytes
        if self.kind == "all-reduce":
            return 2 * self.bytes * (n - 1) // n
        if self.kind in ("all-gather", "reduce-scatter", "all-to-all"):
            return self.bytes * (n - 1) // n
        return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer:
    """A large value that the program computes.

    Attributes:
      bytes: On each device, without padding.
      array: What it is, such as `f32[256,256]`.
      file: As in `Collective`, like the next three.
      line: From 1; 0 where it is not known.
      operation: JAX's name of the operation.
      name: Of the instruction.
    """

    bytes: int
    array: str
    file: str
    line: int
    operation: str
    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Refusal:
    """What the compiler said of a program that does not fit.

    Attributes:
      text: Its own words.
      required: Bytes that the program needs on each device; None where it does not say so.
      available: Bytes that there are; None where it does not say so.
    """

    text: str
    required: int | None
    available: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Program:
    """A compiled program; on each device the same.

    Attributes:
      name: Of its module, such as `jit_step`.
      fits: Whether the compiler accepted it, and it needs no more than `memory.limit` where that is known.
      refusal: What the compiler said, where it did not accept it; all below but `mesh` is then empty.
      memory: None where the program was refused.
      collectives: In the order of the text.
      flops: That XLA counts, on each device: each loop's body once (`loops`); None where it counts none.
      bytes_accessed: That XLA counts, likewise.
      matmul_flops: Of its matrix products and convolutions, loops multiplied, on each device, without those in
        branches of conditionals; None where one of them cannot be counted.
      loops: How many loops it has.
      largest: The largest values it computes, the largest first.
      unread: What may communicate beside `collectives`, such as kernels, whose own transfers no text shows.
      mesh: The first of the user's meshes that has the program's devices, of several slices those of all; of a
        program that was refused that of its arguments. None where none is known.
      groupings: Who exchanges data with whom, each once.
    """

    name: str
    fits: bool
    refusal: Refusal | None = None
    memory: Memory | None = None
    collectives: tuple[Collective, ...] = ()
    flops: float | None = None
    bytes_accessed: float | None = None
    matmul_flops: int | None = None
    loops: int = 0
    largest: tuple[Buffer, ...] = ()
    unread: tuple[str, ...] = ()
    mesh: MeshAxes | None = None
    groupings: tuple[Grouping, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Total:
    """What all collectives along the same axes move.

    Attributes:
      axes: As `Collective.axes`.
      between_slices: As `Collective.between_slices`.
      bytes: On each device in one run of the program, of those whose times are known.
      sent: That a device must send at least, likewise; see `Collective.sent`.
      uncounted: How many collectives lie in loops whose turns are not known.
      at_most: Whether some lie in a branch of a conditional.
    """

    axes: tuple[str, ...] | None
    between_slices: bool
    bytes: int
    sent: int
    uncounted: int
    at_most: bool


def totals(collectives: Sequence[Collective]) -> list[Total]:
    """One for each set of axes, within slices and between, in the order in which they first appear."""
    by_axes: dict[tuple[tuple[str, ...] | None, bool], list[Collective]] = {}
    for collective in collectives:
        by_axes.setdefault((collective.axes, collective.between_slices), []).append(collective)
    return [
        Total(
            axes=axes,
            between_slices=between_slices,
            bytes=sum(each.bytes * each.times for each in found if each.times is not None),
            sent=sum(each.sent * each.times for each in found if each.times is not None),
            uncounted=sum(each.times is None for each in found),
            at_most=any(each.in_branch for each in found),
        )
        for (axes, between_slices), found in by_axes.items()
    ]
