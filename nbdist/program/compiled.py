"""From what JAX has compiled to a `Program`: the same in a process of a session and in a rehearsal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.contract.program import Memory, MeshAxes, Program
from nbdist.errors import ProgramError
from nbdist.program.read import read_program
from nbdist.program.refusal import refused


def compile_program(
    lowered: Any, *, name: str = "", limit: int | None = None, meshes: Sequence[Any] = ()
) -> Program:
    """Compiles what `jax.jit(f).lower(...)` gives, and reads it; nothing runs.

    Args:
      lowered: A `jax.stages.Lowered`.
      name: Of the program, where it does not fit and so has no text.
      limit: Bytes of memory of each device.
      meshes: As in `program_of`.

    Returns:
      Also of a program that does not fit: with `fits` False, and what the compiler said.

    Raises:
      ProgramError: What the compiler gives cannot be read.
      Exception: As the compiler raises it, for whatever else it does not accept.
    """
    try:
        compiled = lowered.compile()
    except RuntimeError as error:  # jax.errors.JaxRuntimeError
        program = refused(str(error), name)
        if program is None:
            raise
        return program
    return program_of(compiled, limit=limit, meshes=meshes)


def program_of(compiled: Any, *, limit: int | None = None, meshes: Sequence[Any] = ()) -> Program:
    """Reads a compiled program.

    Args:
      compiled: A `jax.stages.Compiled`.
      limit: Bytes of memory of each device, for all of the program; None where it is not known.
      meshes: `jax.sharding.Mesh`es whose axes name those of its collectives, before those of its arguments and
        results. They have the program's devices, in the program's order.

    Raises:
      ProgramError: It has no text, or one that cannot be read.
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
        meshes=_meshes(compiled, meshes),
    )


def _memory(analysis: Any, limit: int | None) -> Memory | None:
    if analysis is None:
        return None
    return Memory(
        arguments=int(analysis.argument_size_in_bytes),
        outputs=int(analysis.output_size_in_bytes),
        temporaries=int(analysis.temp_size_in_bytes),
        aliased=int(analysis.alias_size_in_bytes),
        code=int(analysis.generated_code_size_in_bytes),
        limit=limit,
    )


def _costs(analysis: Any) -> Mapping[str, float]:
    """XLA gives a negative number for what it does not know."""
    if isinstance(analysis, list | tuple):
        analysis = analysis[0] if analysis else {}
    return {key: value for key, value in (analysis or {}).items() if value >= 0}


def _meshes(compiled: Any, given: Sequence[Any]) -> list[MeshAxes]:
    """Those given, then those of the arguments and results, each once."""
    import jax

    shardings = jax.tree.leaves((compiled.input_shardings, compiled.output_shardings))
    found = [*given, *(getattr(sharding, "mesh", None) for sharding in shardings)]
    axes = [mesh_axes(mesh) for mesh in found if isinstance(mesh, jax.sharding.Mesh)]
    return list(dict.fromkeys(axes))


def mesh_axes(mesh: Any) -> MeshAxes:
    """The axes of a `jax.sharding.Mesh`."""
    # Only devices of TPUs have this.
    slices = tuple(getattr(device, "slice_index", 0) for device in mesh.devices.flat)
    return MeshAxes(
        names=tuple(map(str, mesh.axis_names)),
        shape=tuple(mesh.devices.shape),
        devices=tuple(device.id for device in mesh.devices.flat),
        slices=slices if len(set(slices)) > 1 else (),
    )
