"""Floating point operations of matrix products and convolutions, each counted as often as it runs.

XLA's own count has the body of a loop once.
"""

from __future__ import annotations

import re
from math import prod

from nbdist.program.hlo import Instruction, Module, occurrences
from nbdist.program.runs import Runs
from nbdist.program.shapes import Shape, shapes_in

_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"\bdim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"\bwindow=\{([^}]*)\}")
_BATCHES = re.compile(r"\bbatch_group_count=(\d+)")


def matmul_flops(module: Module, runs: Runs) -> int | None:
    """Return the operations of all matrix products and convolutions on each device; leaves out those in branches.

    Returns:
      A multiplication and an addition count as two. None where one lies in a loop with an unknown number of turns,
      or is written in a form that is not known here.
    """
    total = 0
    for opcode in ("dot", "convolution"):
        for place in occurrences(module.text, f" {opcode}("):
            computation, found = module.computation_at(place), module.instruction_at(place)
            if computation is None or found is None or found.opcode != opcode:
                continue
            times = runs.times(computation)
            if times.branch:
                continue
            flops = _flops(module, computation, found)
            if times.count is None or flops is None:
                return None
            total += times.count * flops
    return total


def _flops(module: Module, computation: str, found: Instruction) -> int | None:
    types = [module.array_type(computation, name) for name in found.operands[:2]]
    shapes = [shapes_in(each) for each in (*types, found.type)]
    if [len(each) for each in shapes] != [1, 1, 1]:
        return None
    left, right, result = shapes[0][0], shapes[1][0], shapes[2]
    if found.opcode == "dot":
        contracted = _CONTRACTED.search(found.attributes)
        if contracted is None:
            return None
        axes = [int(axis) for axis in contracted[1].split(",") if axis]
        return 2 * prod(result[0].dims) * prod(left.dims[axis] for axis in axes)
    return _convolution(found, left, right, result[0])


def _convolution(found: Instruction, left: Shape, right: Shape, result: Shape) -> int | None:
    """Count the pairs of places that meet, since padding and dilation leave out many.

    XLA for TPUs writes matrix products as convolutions, and those with a batch as convolutions with dilation.
    """
    labels = _LABELS.search(found.attributes)
    batches = _BATCHES.search(found.attributes)
    if labels is None or (batches is not None and batches[1] != "1"):
        return None
    window = _WINDOW.search(found.attributes)
    fields = dict(part.partition("=")[::2] for part in window[1].split()) if window else {}
    spatial = sorted(label for label in labels[2] if label.isdigit())
    met = 1
    for number, label in enumerate(spatial):
        kernel = right.dims[labels[2].index(label)]
        within, outside = left.dims[labels[1].index(label)], result.dims[labels[3].index(label)]
        stride, before, base, spread = (
            int(_nth(fields, name, number, default).split("_")[0])
            for name, default in (
                ("stride", "1"),
                ("pad", "0_0"),
                ("lhs_dilate", "1"),
                ("rhs_dilate", "1"),
            )
        )
        met *= _meetings(kernel, within, outside, stride, before, base, spread)
    depth = right.dims[labels[2].index("i")]
    rows, columns = result.dims[labels[3].index("b")], result.dims[labels[3].index("f")]
    return 2 * met * depth * rows * columns


def _meetings(
    kernel: int, within: int, outside: int, stride: int, before: int, base: int, spread: int
) -> int:
    count = 0
    for at in range(kernel):
        for out in range(outside):
            place = out * stride - before + at * spread
            if place >= 0 and place % base == 0 and place // base < within:
                count += 1
    return count


def _nth(fields: dict[str, str], name: str, number: int, default: str) -> str:
    """Return one axis's part of a field such as `pad=1_1x0_0`."""
    parts = fields.get(name, "").split("x")
    return parts[number] if number < len(parts) and parts[number] else default
