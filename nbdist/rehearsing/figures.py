"""The figures by which programs on several meshes are compared, and which of them is the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from nbdist.contract.program import Program, totals
from nbdist.program.bound import Speeds, bound_of
from nbdist.rehearsal.chips import Chip
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsing.asked import AskedPod

MEMORY = ("arguments", "outputs", "temporaries", "total")
"""The memory figures, by their names in `Figures`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The bytes that a device must send along some axes in one run.

    Attributes:
      axes: None for devices that are no axes of the mesh.
      between_slices: Whether through the network between slices, not over the links of one.
      bytes: A lower limit, whichever algorithm is used.
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
      program: Its name.
      number: From 1: which of its mesh's programs of that name it is.
      mesh: As a person types it; None for none.
      fits: Whether the program fits.
      arguments: Bytes on each device, as all memory figures.
      outputs: Likewise.
      temporaries: Likewise.
      total: All of them, aliased memory once, and the program itself.
      sent: Bytes that a device must send, by axes.
      bound_s: A lower limit for the seconds of a run.
      bound_left_out: What this limit does not count, in words.
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
    sent: tuple[Sent, ...] = ()
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
            Sent(
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
