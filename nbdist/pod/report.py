"""What a cell or a script has compiled, as its starter asked to have it: in a file, shown, or both."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbdist.contract.rehearsal import Compiled, Compiling, Reported, to_line
from nbdist.pod.shown import PodProgram
from nbdist.view.text.program import program_text


class Report:
    """Of one cell, or of a script; each program once.

    Args:
      path: The file, which is there; None for none.
      show: Shows a program; None where none is shown.
    """

    def __init__(self, path: Path | None, show: Callable[[PodProgram], None] | None) -> None:
        self._path = path
        self._show = show
        self._seen: set[int] = set()

    def begins(self, name: str) -> None:
        """A function is compiled next."""
        self._write(Compiling(name=name))

    def compiled(self, program: PodProgram) -> None:
        """A function needs a program, which is there."""
        if not self.first(program):
            return
        self._write(Compiled(program=program))
        if self._show is not None:
            self._show(program)

    def first(self, program: PodProgram) -> bool:
        """Whether this is the first that is said of a program; from here on it is not."""
        if id(program) in self._seen:
            return False
        self._seen.add(id(program))
        return True

    def _write(self, reported: Reported) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(to_line(reported))


def printed(program: PodProgram) -> None:
    """Shows a program where there are no pictures."""
    print(program_text(program), end="\n\n", flush=True)
