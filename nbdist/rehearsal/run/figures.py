"""Figures by which programs on several meshes are compared, and which of them is the best.

One figure is the shortest time that a run of a program can take, from the speeds of a device: a bound, no
forecast.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nbdist.contract.program import Program, totals
from nbdist.errors import ProgramError
from nbdist.notation import count_text
from nbdist.rehearsal.plan.chips import Chip
from nbdist.rehearsal.plan.mesh import read_topology
from nbdist.rehearsal.run.asked import AskedPod

HOW = (
    "No run is faster: the longest of its matrix products at peak speed, its arguments and results moved once "
    "through the memory, and what its collectives must send over all "
    "links at once. A run is slower where these wait for "
    "each other. A program that reads only parts of its arguments may take less time for memory."
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Speeds:
    """Speeds of one device, as JAX counts devices.

    Attributes:
      flops_per_s: Peak for the type that the products have.
      memory_bytes_per_s: Bytes that its memory can read or write.
      link_bytes_per_s: Bytes that it can send over all its links together; None where this is not known.
    """

    flops_per_s: float
    memory_bytes_per_s: float
    link_bytes_per_s: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Seconds that one run takes at least.

    Attributes:
      compute_s: For its matrix products and convolutions; None where they cannot be counted.
      memory_s: To read its arguments and write its results once.
      network_s: To send what its collectives must send; None where the links' speed is not known.
      left_out: The parts of a run that are not counted, in words.
    """

    compute_s: float | None
    memory_s: float
    network_s: float | None
    left_out: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Longest of the three times, as all may happen at the same time."""
        return max(self.compute_s or 0.0, self.memory_s, self.network_s or 0.0)


def bound_of(program: Program, speeds: Speeds) -> Bound:
    """Return how fast a program can be at best; see `HOW`.

    Collectives in branches, in loops whose turns are not known, and between slices, are left out.

    Raises:
      ProgramError: The program does not fit, so that nothing is known of a run.
    """
    memory = program.memory
    if program.refusal is not None or memory is None:
        raise ProgramError(
            f"The program {program.name} has no bound: it was not compiled, or its memory is not known."
        )
    sure = [each for each in program.collectives if not each.in_branch]
    links = [each for each in sure if not each.between_slices]
    sent = sum(each.sent * each.times for each in links if each.times is not None)
    unknown = sum(each.times is None for each in links)
    branched = len(program.collectives) - len(sure)
    left_out = []
    if program.matmul_flops is None:
        left_out.append("its products")
    if speeds.link_bytes_per_s is None:
        left_out.append("its collectives")
    else:
        if unknown:
            left_out.append(
                f"{count_text(unknown, 'collective')} in loops whose turns are not known"
            )
        if branched:
            left_out.append(f"{count_text(branched, 'collective')} in branches")
    if between := sum(each.between_slices for each in sure):
        left_out.append(f"{count_text(between, 'collective')} between slices")
    flops = program.matmul_flops
    return Bound(
        compute_s=None if flops is None else flops / speeds.flops_per_s,
        memory_s=(memory.arguments + memory.outputs) / speeds.memory_bytes_per_s,
        network_s=None if speeds.link_bytes_per_s is None else sent / speeds.link_bytes_per_s,
        left_out=(*left_out, *program.unread),
    )


MEMORY = ("arguments", "outputs", "temporaries", "total")
"""The memory figures, by their names in `Figures`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SentBytes:
    """The bytes that a device must send along some axes in one run.

    Attributes:
      axes: The axes; None for devices that are no axes of the mesh.
      between_slices: Whether they go through the network between slices, not over the links of one.
      bytes: A lower limit for their number, whichever algorithm is used.
      certain: False where a collective lies in a branch, or in a loop with an unknown number of turns; `bytes`
        leaves it out.
    """

    axes: tuple[str, ...] | None
    between_slices: bool
    bytes: int
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One program on one mesh. None stands for unknown, as for a program that the compiler refused.

    Attributes:
      program: The program's name.
      number: Its number, from 1, among the programs of that name on its mesh.
      mesh: The mesh, as a person types it; None for none.
      fits: Whether the program fits.
      arguments: Bytes on each device, as all memory figures.
      outputs: Likewise.
      temporaries: Likewise.
      total: All of them, aliased memory once, and the program itself.
      sent: Bytes that a device must send, by axes.
      bound_s: A lower limit for the seconds of a run.
      bound_left_out: The parts of a run that this limit does not count, in words.
      best: The figures in which no other mesh is better, and one is worse: `total`, `bound_s`, `sent`, ….
    """

    program: str
    number: int
    mesh: str | None
    fits: bool
    arguments: int | None = None
    outputs: int | None = None
    temporaries: int | None = None
    total: int | None = None
    sent: tuple[SentBytes, ...] = ()
    bound_s: float | None = None
    bound_left_out: tuple[str, ...] = ()
    best: tuple[str, ...] = ()

    @property
    def sent_bytes(self) -> int | None:
        """Bytes sent along all axes; None where they are not certain."""
        certain = self.total is not None and all(each.certain for each in self.sent)
        return sum(each.bytes for each in self.sent) if certain else None


def figures(rehearsed: Sequence[tuple[AskedPod, Sequence[Program]]]) -> tuple[Figures, ...]:
    """Return one row for each program on each mesh, rows of the same program together, the best figures marked."""
    by_program: dict[tuple[str, int], list[Figures]] = {}
    for pod, programs in rehearsed:
        met: dict[str, int] = {}
        for program in programs:
            number = met[program.name] = met.get(program.name, 0) + 1
            row = _row(pod, program, number)
            by_program.setdefault((program.name, number), []).append(row)
    return tuple(row for rows in by_program.values() for row in _marked(rows))


def speeds_of(chip: Chip) -> Speeds:
    """Return the speeds of one device; half of `ici_bytes_per_s`, which counts both directions, is for sending."""
    link = chip.ici_bytes_per_s
    return Speeds(
        flops_per_s=chip.bf16_flops / chip.devices,
        memory_bytes_per_s=chip.hbm_bytes_per_s / chip.devices,
        link_bytes_per_s=None if link is None else link / 2 / chip.devices,
    )


def _row(pod: AskedPod, program: Program, number: int) -> Figures:
    plain = Figures(program=program.name, number=number, mesh=pod.mesh, fits=program.fits)
    memory, chip = program.memory, read_topology(pod.topology).chip
    if memory is None:
        return plain
    plain = replace(
        plain,
        arguments=memory.arguments,
        outputs=memory.outputs,
        temporaries=memory.temporaries,
        total=memory.needed,
        sent=tuple(
            SentBytes(
                axes=one.axes,
                between_slices=one.between_slices,
                bytes=one.sent,
                certain=not (one.uncounted or one.at_most),
            )
            for one in totals(program.collectives)
        ),
    )
    if chip is None:
        return plain
    bound = bound_of(program, speeds_of(chip))
    return replace(plain, bound_s=bound.seconds, bound_left_out=bound.left_out)


def _marked(rows: Sequence[Figures]) -> list[Figures]:
    """Mark the best of the programs that fit; a bound that leaves something out is never marked."""
    known: dict[str, Callable[[Figures], float | None]] = {
        **{name: _getter(name) for name in MEMORY},
        "sent": lambda row: row.sent_bytes,
        "bound_s": lambda row: None if row.bound_left_out else row.bound_s,
    }
    best: dict[str, float] = {}
    for name, figure in known.items():
        found = [figure(row) for row in rows if row.fits]
        certain = [value for value in found if value is not None]
        if len(certain) == len(found) and len(set(certain)) > 1:
            best[name] = min(certain)
    return [
        replace(
            row,
            best=tuple(
                name for name, least in best.items() if row.fits and known[name](row) == least
            ),
        )
        for row in rows
    ]


def _getter(name: str) -> Callable[[Figures], float | None]:
    return lambda row: getattr(row, name)
