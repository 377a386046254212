"""Pod that is not there, as `nbdist.rehearse` gives it, and the programs that are compiled for it.

Functions are lowered and compiled for the pod's devices; none of them is run. A program that this process or an
earlier one has compiled is not compiled again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax
from jax.sharding import Mesh, SingleDeviceSharding

from nbdist.contract.program import Program
from nbdist.errors import RehearsalError
from nbdist.program.compiled import program_of, refused
from nbdist.rehearsal.pod.devices import Devices, user_line
from nbdist.rehearsal.pod.kept import CachedProgram, KeptPrograms
from nbdist.rehearsal.pod.shown import (
    PodProgram,
    laid_as_given,
    laid_of,
    mesh_of,
    snapshot_maker,
)

_MODULE = re.compile(r"module @([\w.-]+)")


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled program, and how its results lie.

    Attributes:
      program: The program as plain data.
      out_shardings: One for each result, in order; None where the program does not fit.
    """

    program: PodProgram
    out_shardings: tuple[Any, ...] | None


class Programs:
    """Compiler for the devices of a pod: compiles each program once, and none that another process has compiled.

    Args:
      devices: The pod's devices.
      compiled: Called with each program that a function needs, also if it was compiled before.
      begins: Called with the name of a function before it is compiled.
    """

    def __init__(
        self,
        devices: Devices,
        compiled: Callable[[PodProgram], None],
        begins: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._devices = devices
        self._compiled = compiled
        self._begins = begins
        self._kept = KeptPrograms(devices)
        self._known: dict[str, CompiledProgram] = {}
        self._calls: dict[Hashable, CompiledProgram] = {}

    @property
    def all(self) -> tuple[PodProgram, ...]:
        """All programs, in the order in which they were compiled."""
        return tuple(one.program for one in self._known.values())

    def compiled_before(self, call: Hashable) -> CompiledProgram | None:
        """Return the compiled program of an earlier, equal call; None if there was none.

        Args:
          call: See `compiled`.
        """
        found = self._calls.get(call)
        if found is not None:
            self._compiled(found.program)
        return found

    def compiled(
        self, lowered: Any, name: str, given: Sequence[Any], call: Hashable = None
    ) -> CompiledProgram:
        """Return the compiled program of a lowered function.

        Args:
          lowered: What `jax.jit(…).lower(…)` returns.
          name: The function's name.
          given: The sharding that each of its arguments was given; None for an argument without one.
          call: Equal for calls that need not be lowered again; None: do not remember the call.

        Raises:
          RehearsalError: The compiler does not take the function, for another reason than its size.
        """
        key = self._kept.key(lowered)
        if key not in self._known:
            kept = self._kept.get(key)
            if kept is not None and kept.program is not None:
                self._known[key] = self._found(lowered, kept.program, kept)
            else:
                self._begins(name)
                new = self._compile(lowered, name, given)
                self._kept.put(key, new)
                assert new.program is not None
                self._known[key] = self._found(lowered, new.program, new)
        found = self._known[key]
        if call is not None:
            self._calls[call] = found
        self._compiled(found.program)
        return found

    def out_shardings(self, lowered: Any) -> tuple[Any, ...]:
        """Return how the results of a lowered operation lie; the operation is not one of the programs.

        Args:
          lowered: As for `compiled`.
        """
        key = self._kept.key(lowered)
        kept = self._kept.get(key)
        if kept is not None and kept.out_shardings is not None:
            return kept.out_shardings
        found = tuple(jax.tree.leaves(lowered.compile().output_shardings))
        self._kept.put(key, CachedProgram(None, found))
        return found

    def _found(self, lowered: Any, program: Program, kept: CachedProgram) -> CompiledProgram:
        make = snapshot_maker(self._devices, lowered, kept.arguments)
        return CompiledProgram(PodProgram.of(program, make), kept.out_shardings)

    def _compile(self, lowered: Any, name: str, given: Sequence[Any]) -> CachedProgram:
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            module = _MODULE.search(lowered.as_text())
            program = refused(str(error), module[1] if module else "")
            if program is None:
                raise RehearsalError(
                    f"{name} cannot be compiled for {self._devices.topology}, in {user_line() or 'the program'}: "
                    f"{error}"
                ) from error
            laid = laid_as_given(lowered, given)
            return CachedProgram(replace(program, mesh=mesh_of(laid)), None, laid)
        chip = self._devices.topology.chip
        program = program_of(compiled, limit=chip.device_memory_bytes if chip is not None else None)
        return CachedProgram(
            program,
            tuple(jax.tree.leaves(compiled.output_shardings)),
            laid_of(lowered, compiled),
        )


class Pod:
    """A pod that is not there. Programs are compiled for it; none is run.

    Args:
      devices: The pod's devices.
      programs: The compiler for them.
    """

    def __init__(self, devices: Devices, programs: Programs) -> None:
        self._devices = devices
        self._programs = programs

    @property
    def devices(self) -> tuple[Any, ...]:
        """Devices of the pod, as `jax.devices()` would give them on it."""
        return tuple(self._devices.all)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs that were compiled for the pod, in order."""
        return self._programs.all

    def mesh(self, axes: Any = None, /, **sizes: int) -> Mesh:
        """Return a mesh over all devices of the pod, with axes of type Auto.

        Args:
          axes: Such as `"data=16,model=16"`; or the sizes by their names, as in `pod.mesh(data=16, model=16)`. A
            size of -1 takes what the others leave.
          sizes: Likewise.

        Returns:
          A `jax.sharding.Mesh`; neighbours on it are neighbours on the pod where that is possible.

        Raises:
          OptionError: The mesh does not take all devices; the error names meshes that would.
        """
        return self._devices.mesh(axes if axes is not None else sizes)

    def compile(self, function: Any, /, *args: Any, **kwargs: Any) -> Program:
        """Compile a function for the pod; the function does not run.

        Args:
          function: Any that `jax.jit` takes, or the result of `jax.jit`, with its donations and shardings.
          *args: The function's arguments. Only their shapes, types and shardings over the pod's devices are used:
            `jax.ShapeDtypeStruct` with a `sharding`, what `jax.eval_shape` gives, arrays, and trees of these.
          **kwargs: Likewise.

        Returns:
          A `Program`: memory, collectives, and whether it fits. A notebook shows it on the pod.

        Raises:
          RehearsalError: The compiler does not take the function, or a sharding has devices that are none of the
            pod's.
        """
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        args, kwargs = jax.tree.map(self._abstract, (args, kwargs))
        name = getattr(function, "__name__", type(function).__name__)
        with jax.default_device(self._devices.all[0]):
            lowered = jitted.lower(*args, **kwargs)
            given = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves((args, kwargs))]
            return self._programs.compiled(lowered, name, given).program

    def _abstract(self, leaf: Any) -> Any:
        """Return the shape of an argument; anything that is no array is returned as it is."""
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        sharding = getattr(leaf, "sharding", None)
        elsewhere = sharding is not None and any(
            device not in self._devices for device in sharding.device_set
        )
        if elsewhere and not isinstance(sharding, SingleDeviceSharding):
            raise RehearsalError(
                f"An argument of shape {tuple(leaf.shape)} is laid out over devices that are none of {self}: "
                f"{sharding}. Give jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(pod.mesh(…), …))."
            )
        return jax.ShapeDtypeStruct(
            leaf.shape,
            leaf.dtype,
            sharding=None if elsewhere else sharding,
            weak_type=getattr(leaf, "weak_type", False),
        )

    def __repr__(self) -> str:
        return f"<{self._devices}, not there>"
