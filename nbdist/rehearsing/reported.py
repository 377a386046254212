"""The reports of a rehearsal's process so far, read while it goes on."""

from __future__ import annotations

from pathlib import Path

from nbdist.contract.program import Program
from nbdist.contract.rehearsal import Compiling, from_line


class ReportFile:
    """The file that a rehearsal's process writes; see `nbdist.contract.rehearsal`.

    Args:
      path: Made here, empty.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.programs: list[Program] = []
        self.compiling = ""
        """The function that is being compiled; empty between two."""
        self._read = 0
        path.write_bytes(b"")

    def read(self) -> None:
        """Read what has come since; a line that is not complete waits."""
        with self.path.open("rb") as file:
            file.seek(self._read)
            new = file.read()
        whole = new[: new.rfind(b"\n") + 1]
        self._read += len(whole)
        for line in whole.decode().splitlines():
            reported = from_line(line)
            if isinstance(reported, Compiling):
                self.compiling = reported.name
            else:
                self.compiling = ""
                self.programs.append(reported.program)
