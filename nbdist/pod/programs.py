"""The programs of a rehearsal: lowered and compiled for the pod, each once."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any

import jax

from nbdist.errors import RehearsalError
from nbdist.pod.devices import Devices
from nbdist.pod.lines import user_line
from nbdist.pod.shown import PodProgram, snapshot_maker
from nbdist.program.compiled import program_of
from nbdist.program.refusal import refused

_MODULE = re.compile(r"module @([\w.-]+)")


@dataclass(frozen=True, slots=True)
class Compiled:
    """A program, and how its results lie.

    Attributes:
      program: As plain data.
      out_shardings: One a result, in order; None where the program does not fit.
    """

    program: PodProgram
    out_shardings: tuple[Any, ...] | None


class Programs:
    """Compiles for the devices of a pod, the same program once.

    Args:
      devices: Of the pod.
      compiled: Called with each program that a function needs, also where it was compiled before.
    """

    def __init__(self, devices: Devices, compiled: Callable[[PodProgram], None]) -> None:
        self._devices = devices
        self._compiled = compiled
        self._known: dict[str, Compiled] = {}
        self._calls: dict[Hashable, Compiled] = {}

    @property
    def all(self) -> tuple[PodProgram, ...]:
        """In the order in which they were compiled."""
        return tuple(one.program for one in self._known.values())

    def compiled_before(self, call: Hashable) -> Compiled | None:
        """What an equal call was compiled to.

        Args:
          call: See `compiled`.
        """
        found = self._calls.get(call)
        if found is not None:
            self._compiled(found.program)
        return found

    def compiled(self, lowered: Any, name: str, call: Hashable = None) -> Compiled:
        """What a lowered function compiles to.

        Args:
          lowered: What `jax.jit(…).lower(…)` gives.
          name: Of the function.
          call: Equal for calls that need not be lowered again; None where no such call comes.

        Raises:
          RehearsalError: The compiler does not take it, for another reason than its size.
        """
        # With its files and lines, which a program names.
        text = lowered.as_text(debug_info=True)
        key = hashlib.sha256(text.encode()).hexdigest()
        if key not in self._known:
            module = _MODULE.search(text)
            self._known[key] = self._compile(lowered, name, module[1] if module else "")
        found = self._known[key]
        if call is not None:
            self._calls[call] = found
        self._compiled(found.program)
        return found

    def _compile(self, lowered: Any, name: str, module: str) -> Compiled:
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            program = refused(str(error), module)
            if program is None:
                raise RehearsalError(
                    f"{name} cannot be compiled for {self._devices.topology}, in {user_line() or 'the program'}: "
                    f"{error}"
                ) from error
            make = snapshot_maker(self._devices, lowered, None)
            return Compiled(PodProgram.of(program, make), None)
        chip = self._devices.topology.chip
        program = program_of(compiled, limit=chip.device_memory_bytes if chip is not None else None)
        shown = PodProgram.of(program, snapshot_maker(self._devices, lowered, compiled))
        return Compiled(shown, tuple(jax.tree.leaves(compiled.output_shardings)))
