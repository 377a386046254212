"""A `Program`, of the text, the memory and the costs that XLA gives of a compiled program."""

from __future__ import annotations

from collections.abc import Sequence

from nbdist.contract.program import Memory, MeshAxes, Program
from nbdist.program.collectives import Collectives
from nbdist.program.frames import Frames
from nbdist.program.hlo import Module, occurrences
from nbdist.program.largest import largest_values
from nbdist.program.matmuls import matmul_flops
from nbdist.program.runs import Runs
from nbdist.quantities import count_text

_KERNELS = ("tpu_custom_call", "mosaic_gpu")


def read_program(
    text: str,
    *,
    memory: Memory | None = None,
    flops: float | None = None,
    bytes_accessed: float | None = None,
    meshes: Sequence[MeshAxes] = (),
) -> Program:
    """Reads a compiled program.

    Args:
      text: What `compiled.as_text()` gives.
      memory: What `compiled.memory_analysis()` says, on each device.
      flops: What `compiled.cost_analysis()` says, on each device.
      bytes_accessed: Likewise.
      meshes: Of the program's arguments and results. Its partitions are numbered in their order of devices.

    Raises:
      ProgramError: The text is no program's, is not all of it, or has something that cannot be read.
    """
    module = Module(text)
    runs = Runs(module, Frames(module))
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
