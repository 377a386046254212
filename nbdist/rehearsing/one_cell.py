"""A cell as one of several rehearsals side by side."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nbdist.rehearsing.asked import AskedPod
from nbdist.rehearsing.comparison import Rehearsed
from nbdist.rehearsing.process import RehearsalProcess
from nbdist.rehearsing.reported import ReportFile
from nbdist.rehearsing.side_by_side import Phase

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


class OneCell:
    """A cell on one of the meshes.

    Args:
      code: The cell's code.
      pod: With its mesh.
      process: The process that has run the cells before; None to begin one.
      value: Stands in for values.
    """

    def __init__(
        self, code: str, *, pod: AskedPod, process: RehearsalProcess | None, value: float | None
    ) -> None:
        self.pod, self.process = pod, process
        self._code, self._value = code, value
        self._folder = tempfile.TemporaryDirectory(prefix="nbdist-rehearse-")
        self._report = ReportFile(Path(self._folder.name) / "report")
        self._printed: list[str] = []
        self._submitted = False

    def start(self) -> None:
        """Begin its process, if there is none."""
        if self.process is None:
            self.process = RehearsalProcess(self.pod, wait=False)

    def advance(self, wait_s: float) -> bool:
        """Advance the process, and submit the cell once it is idle; return whether the cell has ended."""
        process = self.process
        assert process is not None
        if process.idle and not self._submitted:
            self._submitted = True
            process.submit(
                self._code, value=self._value, shown=self._shown, report=self._report.path
            )
        process.advance(wait_s)
        self._report.read()
        return self._submitted and process.idle

    def state(self) -> tuple[Phase, str, int]:
        """Return the phase, the function that is being compiled, and the number of programs."""
        report, process = self._report, self.process
        if process is None or not self._submitted:
            return "starting", "", 0
        phase: Phase = "compiling" if report.compiling else "running"
        if process.idle:
            phase = "failed" if process.reply.error else "ended"
        return phase, report.compiling, len(report.programs)

    def give_up(self, seconds: float) -> str:
        """End its process, since the compiler does not stop in the middle; return what is to be said."""
        self._end_process()
        return f"It did not finish within --timeout {seconds:g}, and its process was ended: its names are gone."

    def end(self) -> None:
        """End its process at once."""
        self._end_process()
        self._folder.cleanup()

    def rehearsed(self, failure: str) -> Rehearsed:
        """Return the result of the cell; the process stays for the next cell."""
        if self.process is not None and not failure:
            failure = self.process.reply.error
            self._printed += [self.process.reply.traceback] if failure else []
        self._report.read()
        self._folder.cleanup()
        return Rehearsed(
            pod=self.pod,
            programs=tuple(self._report.programs),
            failure=failure,
            output=_COLOR.sub("", "".join(self._printed)),
        )

    def _end_process(self) -> None:
        if self.process is not None:
            self.process.end()

    def _shown(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "stream":
            self._printed.append(content["text"])
        elif kind in ("display_data", "execute_result"):
            self._printed.append(f"{content['data'].get('text/plain', '')}\n")
