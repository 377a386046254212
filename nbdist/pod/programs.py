"""The programs of a rehearsal: lowered and compiled for the pod, each once."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import jax

from nbdist.contract.program import Program
from nbdist.errors import RehearsalError
from nbdist.pod.devices import Devices
from nbdist.pod.kept import Kept, KeptPrograms
from nbdist.pod.lines import user_line
from nbdist.pod.shown import PodProgram, laid_as_given, laid_of, mesh_of, snapshot_maker
from nbdist.program.compiled import program_of
from nbdist.program.refusal import refused

_MODULE = re.compile(r"module @([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A compiled program, and how its results lie.

    Attributes:
      program: As plain data.
      out_shardings: One for each result, in order; None where the program does not fit.
    """

    program: PodProgram
    out_shardings: tuple[Any, ...] | None


class Programs:
    """Compiles for the devices of a pod, each program once, also if another process has compiled it before.

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
        self._known: dict[str, Compiled] = {}
        self._calls: dict[Hashable, Compiled] = {}

    @property
    def all(self) -> tuple[PodProgram, ...]:
        """All programs, in the order in which they were compiled."""
        return tuple(one.program for one in self._known.values())

    def compiled_before(self, call: Hashable) -> Compiled | None:
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
    ) -> Compiled:
        """Return the compiled program of a lowered function.

        Args:
          lowered: What `jax.jit(…).lower(…)` returns.
          name: The function's name.
          given: The sharding that each of its arguments was given; None for an argument without one.
          call: Equal for calls that need not be lowered again; None where no such call comes.

        Raises:
          RehearsalError: The compiler does not take it, for another reason than its size.
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
        self._kept.put(key, Kept(None, found))
        return found

    def _found(self, lowered: Any, program: Program, kept: Kept) -> Compiled:
        make = snapshot_maker(self._devices, lowered, kept.arguments)
        return Compiled(PodProgram.of(program, make), kept.out_shardings)

    def _compile(self, lowered: Any, name: str, given: Sequence[Any]) -> Kept:
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
            return Kept(replace(program, mesh=mesh_of(laid)), None, laid)
        chip = self._devices.topology.chip
        program = program_of(compiled, limit=chip.device_memory_bytes if chip is not None else None)
        return Kept(
            program,
            tuple(jax.tree.leaves(compiled.output_shardings)),
            laid_of(lowered, compiled),
        )
