"""What a cell or a script has compiled, as its starter asked to have it: in a file, printed, or both."""

from __future__ import annotations

from pathlib import Path

from nbdist.contract.program import Program
from nbdist.contract.rehearsal import Compiled, Compiling, Reported, to_line
from nbdist.view.text.program import program_text


class Report:
    """Of one cell, or of a script; each program once.

    Args:
      path: The file, which is there; None for none.
      show: Whether programs are printed.
    """

    def __init__(self, path: Path | None, *, show: bool) -> None:
        self._path = path
        self._show = show
        self._seen: set[int] = set()

    def begins(self, name: str) -> None:
        """A function is compiled next."""
        self._write(Compiling(name=name))

    def compiled(self, program: Program) -> None:
        """A function needs a program, which is there."""
        if id(program) in self._seen:
            return
        self._seen.add(id(program))
        self._write(Compiled(program=program))
        if self._show:
            print(program_text(program), end="\n\n", flush=True)

    def _write(self, reported: Reported) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(to_line(reported))
