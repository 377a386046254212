"""A script as one of several rehearsals side by side."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from nbdist.rehearsing.asked import AskedPod
from nbdist.rehearsing.comparison import Rehearsed
from nbdist.rehearsing.ended import LOOKED_AT, lacks_memory
from nbdist.rehearsing.script import ScriptProcess, too_long
from nbdist.rehearsing.side_by_side import Phase

_LAST = 4000
"""Characters of a script's standard error that are shown with its failure."""


class OneScript:
    """A script on one of the meshes.

    Args:
      script: A Python file.
      arguments: The script's arguments.
      pod: With its mesh.
      value: Stands in for values.
    """

    def __init__(
        self, script: Path, arguments: Sequence[str], *, pod: AskedPod, value: float | None
    ) -> None:
        self.pod = pod
        self._script, self._arguments, self._value = script, arguments, value
        self._output = tempfile.TemporaryFile()  # noqa: SIM115
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._process: ScriptProcess | None = None
        self._reason = ""

    def start(self) -> None:
        """Begin its process."""
        self._process = ScriptProcess(
            self._script,
            self._arguments,
            pod=self.pod,
            value=self._value,
            output=self._output.fileno(),
            errors=self._errors.fileno(),
            silent=True,
        )

    def advance(self, wait_s: float) -> bool:
        """Wait up to `wait_s`; return whether the script has ended."""
        assert self._process is not None
        ended = self._process.wait(wait_s)
        self._process.report.read()
        return ended

    def state(self) -> tuple[Phase, str, int]:
        """Return the phase, the function that is being compiled, and the number of programs."""
        if self._process is None:
            return "waiting", "", 0
        report = self._process.report
        phase: Phase = "compiling" if report.compiling else "running"
        return "ended" if self._process.wait(0) else phase, report.compiling, len(report.programs)

    def give_up(self, seconds: float) -> str:
        """End the script at once; return what is to be said."""
        assert self._process is not None
        self._process.stop(0)
        self._reason = too_long(seconds)
        return self._reason

    def end(self) -> None:
        """End its process at once."""
        if self._process is not None:
            self._process.end()
        self._output.close()
        self._errors.close()

    def rehearsed(self, failure: str) -> Rehearsed:
        """Return the result of the script."""
        if self._process is None:
            return Rehearsed(pod=self.pod, programs=(), failure=failure)
        said = _text(self._errors)
        outcome = self._process.outcome(self._reason, said[-LOOKED_AT:] or " ")
        if not failure and not outcome.ran:
            alone = lacks_memory(self._process.code, said[-LOOKED_AT:])
            last = "" if alone else said[-_LAST:].strip()
            failure = "\n".join(filter(None, (outcome.reason, last)))
            failure = failure or "It did not come to its end."
        printed = _text(self._output)
        self.end()
        return Rehearsed(pod=self.pod, programs=outcome.programs, failure=failure, output=printed)


def _text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode(errors="replace")
