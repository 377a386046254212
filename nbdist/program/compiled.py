"""Reading of a compiled JAX program into a `Program`, in a process of a session and in a rehearsal.

A `Program` is made from XLA's text, memory analysis and cost analysis of a compiled program. Two figures come from
the text alone: the operations of matrix products, since XLA counts the body of a loop once, and the largest values
with their source lines. For a program that does not fit, there is only the compiler's message with its figures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import Any

from nbdist.contract.program import Buffer, MeshAxes, Program, ProgramMemory, Refusal
from nbdist.errors import ProgramError
from nbdist.notation import count_text
from nbdist.program.axes import mesh_axes
from nbdist.program.collectives import Collectives
from nbdist.program.hlo import (
    FrameTables,
    Instruction,
    Module,
    Shape,
    SourceLine,
    occurrences,
    shapes_in,
)
from nbdist.program.runs import Runs

_CONTRACTED = re.compile(r"\blhs_contracting_dims=\{([\d,]*)\}")
_LABELS = re.compile(r"\bdim_labels=(\w+)_(\w+)->(\w+)")
_WINDOW = re.compile(r"\bwindow=\{([^}]*)\}")
_BATCHES = re.compile(r"\bbatch_group_count=(\d+)")


def matmul_flops(module: Module, runs: Runs) -> int | None:
    """Return the floating point operations of all matrix products and convolutions on each device.

    Each product counts as often as it runs; products in branches are left out. A multiplication with its addition
    counts as two operations.

    Returns:
      None if a product is in a loop with an unknown number of iterations, or is written in an unknown form.
    """
    total = 0
    for computation, found in module.instructions_with(" dot(", " convolution("):
        times = runs.times(computation)
        if times.branch or found.opcode not in ("dot", "convolution"):
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
    """Return the operations of a convolution; positions skipped by padding or dilation do not count.

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


MOST = 8
"""Number of the largest values that are kept."""

SMALL = 100
"""Factor: values smaller than the largest by more than this factor are left out."""

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
    """Return the largest values that a program computes and their source lines, each line once.

    Values in a memory that is faster than the device's main memory are left out. A value is not a buffer: XLA may
    use one buffer for values that do not live at the same time.
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
    found: dict[tuple[str, SourceLine], Buffer] = {}
    sized_most = max(sized, default=(0, 0))[0]
    for size, place in sorted(sized, key=lambda entry: (-entry[0], entry[1])):
        if len(found) == MOST or size * SMALL < sized_most:
            break
        buffer, source = _buffer(module, runs, size, place)
        found.setdefault((buffer.array, source), buffer)
    return tuple(found.values())


def _buffer(module: Module, runs: Runs, size: int, place: int) -> tuple[Buffer, SourceLine]:
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
    """Yield computations whose instructions have their own buffers: not fusions, not a reduction's function."""
    yield module.entry
    yield from (
        name
        for name, calls in module.calls.items()
        if name in module.spans
        and any(call.role in ("body", "condition", "branch") for call in calls)
    )


_KERNELS = ("tpu_custom_call", "mosaic_gpu")


def read_program(
    text: str,
    *,
    memory: ProgramMemory | None = None,
    flops: float | None = None,
    bytes_accessed: float | None = None,
    meshes: Sequence[MeshAxes] = (),
) -> Program:
    """Return a `Program` from the text, the memory and the costs of a compiled program.

    Args:
      text: The result of `compiled.as_text()`.
      memory: The result of `compiled.memory_analysis()`, on each device.
      flops: The operations in the result of `compiled.cost_analysis()`, on each device.
      bytes_accessed: The bytes in the same result.
      meshes: The meshes of the program's arguments and results; its partitions are numbered in their device order.

    Raises:
      ProgramError: The text is not a program, is incomplete, or has something that cannot be read.
    """
    module = Module(text)
    runs = Runs(module, FrameTables(module))
    collectives = Collectives(module, runs, meshes)
    read = collectives.read()
    limit = memory.limit if memory is not None else None
    return Program(
        name=module.name,
        fits=memory is None or limit is None or memory.needed <= limit,
        memory=memory,
        collectives=read,
        flops=flops,
        bytes_accessed=bytes_accessed,
        matmul_flops=matmul_flops(module, runs),
        loops=sum(1 for _ in occurrences(text, ", body=")),
        largest=largest_values(module, runs),
        unread=(*collectives.unread, *_unread(module)),
        mesh=collectives.mesh,
        groupings=collectives.groupings,
    )


def _unread(module: Module) -> list[str]:
    found = []
    for target in _KERNELS:
        count = module.text.count(f'custom_call_target="{target}"')
        if count:
            kernels = count_text(count, "Pallas kernel")
            found.append(f"what {kernels} ({target}) may send by themselves")
    sends = sum(
        1
        for place in occurrences(module.text, " send(")
        if "is_host_transfer=true" not in module.line_at(place)[1]
    )
    if sends:
        found.append(count_text(sends, "send"))
    return found


_UNITS = {"": 1, "B": 1, "K": 1024, "M": 1024**2, "G": 1024**3, "T": 1024**4}
_SIZE = r"(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?"
# The wording of each version: JAX 0.10 and 0.12 for absent TPUs; libtpu for real TPUs; GPUs.
_FIGURES = (
    re.compile(rf"total memory required for [^()]*\({_SIZE}\) exceeds available HBM \({_SIZE}\)"),
    re.compile(rf"Used {_SIZE} of {_SIZE} hbm"),
)
_REFUSED = re.compile(
    r"Ran out of memory|CompileTimeHbmOom|Out of memory while trying to allocate|out of memory trying to allocate",
    re.IGNORECASE,
)


def refused(error: str, name: str = "") -> Program | None:
    """Return a program that does not fit, from the compiler's message and the figures in it.

    Returns:
      None if the message is about something else.
    """
    if not _REFUSED.search(error):
        return None
    required = available = None
    for figures in _FIGURES:
        if match := figures.search(error):
            required = _bytes(match[1], match[2])
            available = _bytes(match[3], match[4])
            break
    return Program(
        name=name,
        fits=False,
        refusal=Refusal(text=error, required=required, available=available),
    )


def _bytes(number: str, unit: str) -> int:
    return round(float(number) * _UNITS[unit])


def compile_program(lowered: Any, *, name: str = "", limit: int | None = None) -> Program:
    """Compile the result of `jax.jit(f).lower(...)` and return it as a `Program`; nothing runs.

    Args:
      lowered: A `jax.stages.Lowered`.
      name: The name to use if the program does not fit and so has no text.
      limit: Bytes of memory of each device.

    Returns:
      The program; if it does not fit, `fits` is False and it has the compiler's message.

    Raises:
      ProgramError: The compiler's result cannot be read.
      Exception: The compiler's own error, for any other program that it rejects.
    """
    try:
        compiled = lowered.compile()
    except RuntimeError as error:  # jax.errors.JaxRuntimeError
        program = refused(str(error), name)
        if program is None:
            raise
        return program
    return program_of(compiled, limit=limit)


def program_of(compiled: Any, *, limit: int | None = None) -> Program:
    """Return a `Program` from what JAX has compiled.

    Args:
      compiled: A `jax.stages.Compiled`.
      limit: Bytes of memory of each device, for all of the program; None if it is not known.

    Raises:
      ProgramError: The program has no text, or one that cannot be read.
    """
    text = compiled.as_text()
    if not text:
        raise ProgramError("The compiled program has no text; its backend does not give one.")
    costs = _costs(compiled.cost_analysis())
    return read_program(
        text,
        memory=_memory(compiled.memory_analysis(), limit),
        flops=costs.get("flops"),
        bytes_accessed=costs.get("bytes accessed"),
        meshes=_meshes(compiled),
    )


def _memory(analysis: Any, limit: int | None) -> ProgramMemory | None:
    if analysis is None:
        return None
    return ProgramMemory(
        arguments=int(analysis.argument_size_in_bytes),
        outputs=int(analysis.output_size_in_bytes),
        temporaries=int(analysis.temp_size_in_bytes),
        aliased=int(analysis.alias_size_in_bytes),
        code=int(analysis.generated_code_size_in_bytes),
        limit=limit,
    )


def _costs(analysis: Any) -> Mapping[str, float]:
    """Return the costs that are known: XLA gives a negative number for what it does not know."""
    if isinstance(analysis, list | tuple):
        analysis = analysis[0] if analysis else {}
    return {key: value for key, value in (analysis or {}).items() if value >= 0}


def _meshes(compiled: Any) -> list[MeshAxes]:
    """Return the meshes of the arguments and results, each once."""
    import jax

    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    found = [getattr(sharding, "mesh", None) for sharding in shardings]
    axes = [mesh_axes(mesh) for mesh in found if isinstance(mesh, jax.sharding.Mesh)]
    return list(dict.fromkeys(axes))
