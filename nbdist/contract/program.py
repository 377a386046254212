"""Compiled programs as plain data: their numbers, what the view shows of them, and a rehearsal's reports of them.

`Program` has the numbers, `ShownProgram` the same with the words of the program's text form. The process of a
rehearsal reports its programs (`Reported`), a line of JSON each, in a file that its starter names.

Source: imports nothing outside the standard library but msgspec, as `nbdist.contract.snapshot`, which imports it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Literal

from nbdist.contract.wire import Data, Tagged, from_json, to_json

Direction = Literal["forward", "backward", "both", ""]
"""The direction of a gradient; `both` if the compiler made one collective of several, empty if there is none."""


class MeshAxes(Data):
    """The axes of a user's mesh.

    Attributes:
      names: The names of the axes; the first changes slowest.
      shape: Their sizes.
      devices: The ids of its devices, in the mesh's order: the first axis changes slowest.
      slices: The slice of a pod of each device; empty if all are in one slice.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    devices: tuple[int, ...]
    slices: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        """Raise ValueError if the fields do not belong together."""
        count = len(self.devices)
        if (
            len(self.names) != len(self.shape)
            or prod(self.shape) != count
            or len(self.slices) not in (0, count)
        ):
            raise ValueError(
                f"a mesh of axes {self.names} and shape {self.shape} cannot have {len(self.devices)} devices"
            )


class Grouping(Data):
    """Which devices exchange data with which; collectives with equal groupings share one object.

    Attributes:
      groups: Positions in the order of the program's mesh, or of the program's devices if no mesh of them is
        known; in a pair, the sender is first.
      pairs: Whether the groups are the transfers of a permutation.
    """

    groups: tuple[tuple[int, ...], ...]
    pairs: bool


class ProgramMemory(Data):
    """Bytes on each device.

    Attributes:
      arguments: Bytes of the program's arguments.
      outputs: Bytes of its results.
      temporaries: Bytes of values that live while it runs.
      aliased: Bytes of outputs that take the place of arguments, as donated ones do; counted in both.
      code: Bytes of the program itself.
      limit: Bytes that the device has in all; None if not known.
    """

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int
    limit: int | None = None

    @property
    def needed(self) -> int:
        """Bytes of all, with aliased bytes counted once."""
        return self.arguments + self.outputs + self.temporaries + self.code - self.aliased


class Collective(Data):
    """One operation in which devices exchange data.

    Attributes:
      kind: XLA's name for it: `all-reduce`, `all-gather`, `reduce-scatter`, `all-to-all`, `collective-permute`, ….
      axes: The axes of the user's mesh along which data move; None if the devices are no axes of it.
      devices: Which devices exchange data, by their ids, if `axes` is None; shortened if there are many.
      group_size: Devices that take part together; for a permutation 2, a sender and a receiver.
      bytes: Bytes on each device, each time: of the operands, for an all-gather of its result.
      arrays: The arrays that make up these bytes, such as `f32[256,256]`.
      between_slices: Whether it uses the network between several slices, and not the links of one.
      times: How often it runs in one run of the program; None in a loop whose number of turns is unknown.
      in_branch: Whether it lies in a branch of a conditional; then it runs `times` at most.
      direction: The direction of a gradient, from the name of the operation.
      inserted: Whether XLA says that its partitioner inserted it; if XLA does not say so, nothing follows.
      fused: How XLA writes it in the program's text, if in another form: a reduce-scatter as an all-reduce and a
        slice in one fusion; else empty.
      file: The file of the user's line it comes from, or, if XLA names none, of the value that it moves; empty if
        neither is known. The same holds for the next two fields.
      line: From 1; 0 if not known.
      function: The user's function, with the names of those around it.
      operation: JAX's name of the operation, with those of its loops and transformations.
      name: The name of the instruction in the text.
      grouping: Its index in `Program.groupings`; None if its grouping is not kept.
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
        """Return whether XLA inserted it only to move data: a value lies otherwise than its user needs it.

        Weights in parts that are gathered before use (FSDP) are laid out so on purpose, and also count here. A
        collective that an operation of the program stands for, such as `jax.lax.all_gather`, does not count.
        """
        return self.inserted and self.kind in ("all-gather", "all-to-all", "collective-permute")

    @property
    def sent(self) -> int:
        """The fewest bytes that a device must send to others each time, whichever algorithm is used.

        With n = `group_size`: (n-1)/n of the bytes; twice that for an all-reduce, since each value must be reduced
        and then be everywhere; for a permutation all bytes, or none if each device is its own target. Rounded
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


class Buffer(Data):
    """A large value that the program computes.

    Attributes:
      bytes: Bytes on each device, without padding.
      array: Its type, such as `f32[256,256]`.
      file: As in `Collective`, like the next three.
      line: From 1; 0 if not known.
      operation: JAX's name of the operation.
      name: The name of the instruction.
    """

    bytes: int
    array: str
    file: str
    line: int
    operation: str
    name: str


class Refusal(Data):
    """The compiler's message about a program that does not fit.

    Attributes:
      text: The compiler's own words.
      required: Bytes that the program needs on each device; None if the compiler does not say.
      available: Bytes that there are; None if the compiler does not say.
    """

    text: str
    required: int | None
    available: int | None


class Program(Data):
    """A compiled program, the same on each device.

    Attributes:
      name: The name of its module, such as `jit_step`.
      fits: Whether the compiler accepted it, and it needs no more than `memory.limit` if that is known.
      refusal: The compiler's message, if it refused the program; all fields below but `mesh` are then empty.
      memory: None if the program was refused.
      collectives: In the order of the text.
      flops: XLA's count of operations on each device, each loop's body once (`loops`); None if it counts none.
      bytes_accessed: XLA's count of bytes, likewise.
      matmul_flops: Operations of its matrix products and convolutions on each device, multiplied by the turns of
        loops, without those in branches of conditionals; None if one of them cannot be counted.
      loops: How many loops it has.
      largest: The largest values it computes, the largest first.
      unread: Parts that may communicate beside `collectives`, such as kernels, whose own transfers no text shows.
      mesh: The first of the user's meshes that has the program's devices (with several slices, the devices of
        all); of a refused program, the mesh of its arguments. None if none is known.
      groupings: The groups of devices that exchange data, each grouping once.
    """

    name: str
    fits: bool
    refusal: Refusal | None = None
    memory: ProgramMemory | None = None
    collectives: tuple[Collective, ...] = ()
    flops: float | None = None
    bytes_accessed: float | None = None
    matmul_flops: int | None = None
    loops: int = 0
    largest: tuple[Buffer, ...] = ()
    unread: tuple[str, ...] = ()
    mesh: MeshAxes | None = None
    groupings: tuple[Grouping, ...] = ()


class Total(Data):
    """Data that all collectives along the same axes move.

    Attributes:
      axes: As `Collective.axes`.
      between_slices: As `Collective.between_slices`.
      bytes: Bytes on each device in one run of the program, of collectives whose `times` are known.
      sent: Bytes that a device must send at least, likewise; see `Collective.sent`.
      uncounted: How many collectives lie in loops whose number of turns is unknown.
      at_most: Whether some lie in a branch of a conditional.
    """

    axes: tuple[str, ...] | None
    between_slices: bool
    bytes: int
    sent: int
    uncounted: int
    at_most: bool


def totals(collectives: Sequence[Collective]) -> list[Total]:
    """Return a total for each set of axes, within slices and between, in order of first appearance."""
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


class ShownMemory(Data):
    """Bytes on each device; see `nbdist.contract.program.ProgramMemory`.

    `needed` is the total, with aliased bytes counted once.
    """

    arguments: int
    outputs: int
    temporaries: int
    aliased: int
    code: int
    needed: int


class ShownCollective(Data):
    """One operation in which devices exchange data; see `nbdist.contract.program.Collective`.

    `along` names the axes of the user's mesh, or the devices if they are no axes of it; `arrays` the arrays that
    make up the `bytes`; `times` how often it runs; `line` the user's line, empty if it is not known; `grouping`
    its index in the program's groupings, None if that is not kept.
    """

    kind: str
    along: str
    bytes: int
    arrays: str
    times: str
    direction: Direction
    line: str
    resharding: bool
    grouping: int | None


class ShownValue(Data):
    """A large value that the program computes; `line` as in `ShownCollective`."""

    bytes: int
    array: str
    line: str


class ShownProgram(Data):
    """A compiled program.

    `title` says in words whether it fits. `needed` and `limit` are bytes on each device (for a refused program, as
    the compiler names them); None if they are not known. `refusal` is the compiler's message about a program that
    it refused. `mesh` is the id of the mesh in whose order of devices the `groupings` count; None if it is not
    known. `totals` are sentences about the data that move along each set of axes; `unread` names what is not
    counted. `text` is its text form.
    """

    name: str
    title: str
    fits: bool
    needed: int | None
    limit: int | None
    refusal: str | None
    mesh: str | None
    memory: ShownMemory | None
    collectives: tuple[ShownCollective, ...]
    groupings: tuple[Grouping, ...]
    totals: tuple[str, ...]
    largest: tuple[ShownValue, ...]
    unread: tuple[str, ...]
    text: str


class _Report(Tagged, tag_field="event"):
    """Report of a rehearsal's process."""


class Compiling(_Report):
    """A function is being compiled.

    Attributes:
      name: The name of the function.
    """

    name: str


class Compiled(_Report):
    """A program that a function needs is compiled.

    Attributes:
      program: The compiler's result, made now or before.
    """

    program: Program


Reported = Compiling | Compiled
"""A report of a rehearsal's process about its programs."""


def to_line(reported: Reported) -> str:
    """Return a report as a line of the file, with its end."""
    return to_json(reported) + "\n"


def from_line(line: str) -> Reported:
    """Read a line of the file.

    Raises:
      WireError: The line is no report.
    """
    found: Reported = from_json(Reported, line)  # type: ignore[arg-type]
    return found
