"""How a process ended, as far as that is known."""

from __future__ import annotations

import contextlib
import signal
from dataclasses import dataclass

CONTROLLER = "ipyparallel's controller"
"""The cause in `because_of` for processes that are out of reach because their controller has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ProcessExit:
    """How a process ended.

    `code` is its exit status, or minus the signal's number, None if the host itself is out of reach; `oom` says
    whether the out-of-memory killer ended a process of its control group at that time. `last_lines` is the end of
    its own standard error and output. `because_of` names the cause that put it out of reach, if it did not end
    itself.
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
        """Whether the process lives, but cannot be asked since ipyparallel's controller has ended."""
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
