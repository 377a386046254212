"""A compiled program as text: its memory against the limit, and what it sends along which axis."""

from __future__ import annotations

import re
from pathlib import PurePath

from nbdist.contract.program import Collective, Memory, Program, Refusal, Total, totals
from nbdist.notation import ROWS, WIDTH, bytes_text, columns, count_text, cut

BAR = 30
"""Characters of the bar of the memory."""

BETWEEN = ", between slices"
"""Stands behind the axes of what goes through the network between slices."""

_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]")


def program_text(program: Program, *, width: int = WIDTH) -> str:
    """The memory, the collectives, and what goes along each axis.

    Args:
      program: Compiled, or refused by the compiler.
      width: Characters a line.
    """
    if program.refusal is not None:
        return f"{title_text(program)}. The compiler:\n{program.refusal.text.strip()}"
    lines = [title_text(program)]
    if program.memory is not None:
        lines += ["", *_memory(program.memory)]
    lines += ["", *_collectives(program.collectives)]
    if program.unread:
        lines += ["", f"Not counted: {'; '.join(program.unread)}."]
    lines += ["", *_work(program)]
    return "\n".join(cut(line, width) for line in lines)


def title_text(program: Program) -> str:
    """Whether it fits, in one line; of one that was refused what the compiler asked for."""
    if program.refusal is not None:
        return f"{program.name or 'The program'} does not fit{_required(program.refusal)}"
    memory = program.memory
    if memory is None:
        return f"{program.name}: compiled; its memory is not known"
    if memory.limit is None:
        return f"{program.name}: {bytes_text(memory.needed)} on each device"
    fits = "fits" if program.fits else "does not fit"
    return f"{program.name}: {fits}, {bytes_text(memory.needed)} of {bytes_text(memory.limit)} on each device"


def _required(refusal: Refusal) -> str:
    if refusal.required is None or refusal.available is None:
        return ""
    return f", {bytes_text(refusal.required)} of {bytes_text(refusal.available)} on each device"


def _memory(memory: Memory) -> list[str]:
    parts = [
        ("arguments", memory.arguments),
        ("outputs", memory.outputs),
        ("temporaries", memory.temporaries),
        ("code", memory.code),
        ("shared by arguments and outputs", -memory.aliased),
    ]
    whole = max(memory.limit or 0, memory.needed, memory.arguments, memory.outputs, 1)
    rows = [
        [name, f"−{bytes_text(-size)}" if size < 0 else bytes_text(size), _bar(abs(size), whole)]
        for name, size in parts
        if size or name in ("arguments", "outputs", "temporaries")
    ]
    rows.append(["together", bytes_text(memory.needed), _bar(memory.needed, whole)])
    if memory.limit is not None:
        rows.append(["limit", bytes_text(memory.limit), _bar(memory.limit, whole)])
    return columns(rows, right=(1,))


def _bar(size: int, whole: int) -> str:
    """As long as the part; any part has at least one character."""
    return "█" * max(round(size * BAR / whole), 1 if size else 0)


def _collectives(collectives: tuple[Collective, ...]) -> list[str]:
    if not collectives:
        return ["Its devices exchange nothing."]
    rows = [["collective", "along", "a device", "times", "gradient", "line"]]
    rows += [
        [
            f"{each.kind}{' *' if each.resharding else ''}",
            axes_words(each),
            bytes_text(each.bytes),
            times_text(each),
            each.direction,
            line_text(each.file, each.line),
        ]
        for each in collectives[:ROWS]
    ]
    lines = columns(rows, right=(2, 3))
    if len(collectives) > ROWS:
        lines.append(f"and {len(collectives) - ROWS} more")
    lines += ["", *(total_text(total) for total in totals(collectives))]
    if any(each.resharding for each in collectives):
        lines += [
            "",
            "* Put in by the compiler, since a value lies otherwise than its user needs it.",
        ]
    return lines


def axes_words(collective: Collective) -> str:
    """`data`, `data, model`; or the devices themselves, where these are no axes of the mesh."""
    between = BETWEEN if collective.between_slices else ""
    if collective.axes is None:
        return f"devices {collective.devices}{between}"
    return f"{', '.join(collective.axes) or 'nothing'}{between}"


def times_text(collective: Collective) -> str:
    """`6`, `≤ 6` in a branch, `?` in a loop whose turns are not known."""
    if collective.times is None:
        return "?"
    return f"{'≤ ' if collective.in_branch else ''}{collective.times}"


def line_text(file: str, line: int) -> str:
    """`train.py:12`; of a cell `cell, line 12`; empty where it is not known."""
    if not file:
        return ""
    if _CELL.search(file):
        return f"cell, line {line}"
    return f"{PurePath(file).name}:{line}"


def total_text(total: Total) -> str:
    """`along data: 1.5 MB a device in one run`."""
    along = "devices that are no axes" if total.axes is None else ", ".join(total.axes) or "nothing"
    along += BETWEEN if total.between_slices else ""
    bound = "at most " if total.at_most else ""
    more = (
        f", and {count_text(total.uncounted, 'collective')} of unknown times"
        if total.uncounted
        else ""
    )
    return f"along {along}: {bound}{bytes_text(total.bytes)} a device in one run{more}"


def _work(program: Program) -> list[str]:
    lines = []
    if program.matmul_flops is not None:
        lines.append(f"matrix products: {_count(program.matmul_flops)} operations a device")
    if program.flops is not None:
        once = ", each loop's body once" if program.loops else ""
        lines.append(f"as XLA counts{once}: {_count(program.flops)} operations a device")
    if program.largest:
        lines += ["", "largest values"]
        lines += columns(
            [
                [bytes_text(each.bytes), each.array, line_text(each.file, each.line)]
                for each in program.largest
            ],
            right=(0,),
        )
    return lines


def _count(number: float) -> str:
    """`1.5 T`; powers of 1000."""
    for unit in ("", " k", " M", " G", " T"):
        if number < 999.5:
            return f"{number:.3g}{unit}"
        number /= 1000
    return f"{number:.3g} P"
