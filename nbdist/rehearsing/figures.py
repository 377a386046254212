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
"""The figures of memory, by their names in `Figures`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """What a device must send along some axes in one run.

    Attributes:
      axes: None for devices that are no axes of the mesh.
      between_slices: Whether through the network between slices, and not over the links of one.
      bytes: At least, whichever algorithm is used.
      certain: False where a collective lies in a branch, or in a loop whose turns are not known, which `bytes`
        leave out.
    """

    axes: tuple[str, ...] | None
    between_slices: bool
    bytes: int
    certain: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """One program on one mesh. What is None is not known, as of a program that the compiler refused.

    Attributes:
      program: Its name.
      number: From 1: which of its mesh's programs of that name it is.
      mesh: As a person types it; None for none.
      fits: Whether it does.
      arguments: Bytes on each device, as all figures of memory.
      outputs: Likewise.
      temporaries: Likewise.
      total: Of all, what is aliased once, and the program itself.
      sent: What a device must send, by axes.
      bound_s: No run takes fewer seconds.
      bound_left_out: What the bound does not count, in words.
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
        """Of all axes; None where it is not certain."""
        certain = self.total is not None and all(each.certain for each in self.sent)
        return sum(each.bytes for each in self.sent) if certain else None


def figures(rehearsed: Sequence[tuple[AskedPod, Sequence[Program]]]) -> tuple[Figures, ...]:
    """One row for each program on each mesh, those of the same program together, the best of them marked.

    Args:
      rehearsed: Of each mesh its programs.
    """
    by_program: dict[tuple[str, int], list[Figures]] = {}
    for pod, programs in rehearsed:
        met: dict[str, int] = {}
        for program in programs:
            number = met[program.name] = met.get(program.name, 0) + 1
            row = _row(pod, program, number)
            by_program.setdefault((program.name, number), []).append(row)
    return tuple(row for rows in by_program.values() for row in _marked(rows))


def speeds_of(chip: Chip) -> Speeds:
    """Of one device; `ici_bytes_per_s` counts both directions of a chip's links, of which one is for sending."""
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
    """The best of those that fit; of a bound that leaves something out it is not known whether it is the best."""
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
