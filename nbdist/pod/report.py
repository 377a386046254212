"""Reports of the programs that a cell or a script compiles: in a file, shown, or both, as its starter asked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbdist.contract.rehearsal import Compiled, Compiling, Reported, to_line
from nbdist.pod.shown import PodProgram
from nbdist.view.text.program import program_text


class Report:
    """The report of one cell, or of a script; has each program once.

    Args:
      path: An existing file; None for none.
      show: Shows a program; None to show none.
    """

    def __init__(self, path: Path | None, show: Callable[[PodProgram], None] | None) -> None:
        self._path = path
        self._show = show
        self._seen: set[int] = set()

    def begins(self, name: str) -> None:
        """Report that a function is compiled next."""
        self._write(Compiling(name=name))

    def compiled(self, program: PodProgram) -> None:
        """Report the program that a function needs, now that it is compiled."""
        if not self.first(program):
            return
        self._write(Compiled(program=program))
        if self._show is not None:
            self._show(program)

    def first(self, program: PodProgram) -> bool:
        """Return whether this is the first call with a program; later calls return false."""
        if id(program) in self._seen:
            return False
        self._seen.add(id(program))
        return True

    def _write(self, reported: Reported) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(to_line(reported))


def printed(program: PodProgram) -> None:
    """Print a program, where pictures cannot be shown."""
    print(program_text(program), end="\n\n", flush=True)
