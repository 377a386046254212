"""How a process ended, as far as is known."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass

CONTROLLER = "ipyparallel's controller"
"""What has taken processes out of reach whose controller has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How a process ended.

    `code` is its exit status, or minus the signal's number, None where the host itself is out of reach; `oom`
    whether the out-of-memory killer has ended a process of its control group just then. `last_lines` is the end of
    what it wrote to its own standard error and output. `because_of` says what took it out of reach, where it
    was not its own end.
    """

    process_id: int
    pid: int
    code: int | None
    oom: bool
    time: float
    last_lines: tuple[str, ...]
    because_of: str | None = None

    @property
    def of_the_controller(self) -> bool:
        """Whether the process lives, and can only not be asked since ipyparallel's controller has ended."""
        return self.because_of == CONTROLLER

    def __str__(self) -> str:
        if self.because_of is not None:
            return f"out of reach: {self.because_of} {self._ending()}".rstrip()
        return self._ending()

    def _ending(self) -> str:
        if self.code is None:
            return ""
        if self.code >= 0:
            return f"ended with exit code {self.code}"
        with contextlib.suppress(ValueError):
            name = signal.Signals(-self.code).name
            if self.oom:
                return f"killed by signal {-self.code} ({name}), out of memory"
            return f"killed by signal {-self.code} ({name})"
        return f"killed by signal {-self.code}"
