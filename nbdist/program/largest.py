"""The largest values that a program computes, and the lines they come from."""

from __future__ import annotations

import re
from collections.abc import Iterator

from nbdist.contract.program import Buffer
from nbdist.program.frames import Source
from nbdist.program.hlo import Module
from nbdist.program.runs import Runs
from nbdist.program.shapes import Shape, shapes_in

MOST = 8
"""So many are kept."""

SMALL = 100
"""What is so many times smaller than the largest is not among them."""

_VALUE = re.compile(r"\n\s+(?:ROOT )?%?[\w.\-]+ = ([a-z]\w*\[[\d,]*\])(\S*) ([a-z][\w\-]*)\(")
_ELSEWHERE = re.compile(r"S\([1-9]")
_NOT_NEW = (
    "parameter",
    "get-tuple-element",
    "bitcast",
    "tuple",
    "while",
    "conditional",
    "call",
    "constant",
)


def largest_values(module: Module, runs: Runs) -> tuple[Buffer, ...]:
    """The largest values, each line of code once; those in a faster memory than that of the device are left out.

    A value is not a buffer: XLA gives one buffer to values that do not live at the same time.
    """
    sized: list[tuple[int, int]] = []
    for computation in _scheduled(module):
        begin, end = module.spans[computation]
        sizes: dict[str, int] = {}
        for match in _VALUE.finditer(module.text, begin, end):
            if match[3] in _NOT_NEW or _ELSEWHERE.search(match[2]):
                continue
            if match[1] not in sizes:
                sizes[match[1]] = sum(shape.bytes for shape in shapes_in(match[1]))
            sized.append((sizes[match[1]], match.start() + 1))
    found: dict[tuple[str, Source], Buffer] = {}
    sized_most = max(sized, default=(0, 0))[0]
    for size, place in sorted(sized, key=lambda entry: (-entry[0], entry[1])):
        if len(found) == MOST or size * SMALL < sized_most:
            break
        buffer, source = _buffer(module, runs, size, place)
        found.setdefault((buffer.array, source), buffer)
    return tuple(found.values())


def _buffer(module: Module, runs: Runs, size: int, place: int) -> tuple[Buffer, Source]:
    computation, found = module.computation_at(place), module.instruction_at(place)
    assert computation is not None and found is not None
    source = runs.source(computation, found.attributes)
    array: Shape = shapes_in(found.type)[0]
    buffer = Buffer(
        bytes=size,
        array=str(array),
        file=source.file,
        line=source.line,
        operation=source.operation,
        name=found.name,
    )
    return buffer, source


def _scheduled(module: Module) -> Iterator[str]:
    """The computations whose instructions have buffers of their own: no fusions, no functions of reductions."""
    yield module.entry
    yield from (
        name
        for name, calls in module.calls.items()
        if name in module.spans
        and any(call.role in ("body", "condition", "branch") for call in calls)
    )
