"""The state that a rehearsal's process keeps between cells."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from IPython.core.getipython import get_ipython
from IPython.display import display

from nbdist.contract.page import PROGRAM_MIME_TYPE
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError
from nbdist.rehearsal.pod.backend import Rehearsal
from nbdist.rehearsal.pod.devices import cut_to_users
from nbdist.rehearsal.pod.shown import PodProgram, ProgramReport
from nbdist.view.text.program import program_text


class RehearsalState:
    """The rehearsal of this process, and the report of the present cell."""

    def __init__(self, topology: str, mesh: str | None, slices: int) -> None:
        self._report: ProgramReport | None = None
        self.rehearsal = Rehearsal(
            topology, slices=slices, mesh=mesh, compiled=self._compiled, begins=self._begins
        )

    def cell_begins(self, value: float | None, report: str | None) -> None:
        """Begin a report: each program is shown again, once in this cell."""
        self._report = (
            ProgramReport(None, show) if report is None else ProgramReport(Path(report), None)
        )
        self.rehearsal.trace.stand_in = value

    def show(self, program: PodProgram) -> None:
        """Show a program that the cell ends with, unless the cell has reported it."""
        if self._report is None or self._report.first(program):
            show(program)

    def _begins(self, name: str) -> None:
        if self._report is not None:
            self._report.begins(name)

    def _compiled(self, program: PodProgram) -> None:
        if self._report is not None:
            self._report.compiled(program)


def show(program: PodProgram) -> None:
    """Show a program in the notebook.

    A program that exchanges data, or does not fit, is sent as a snapshot, which makes a picture of it.
    """
    text = program_text(program)
    if program.fits and not program.collectives:
        print(text, end="\n\n")
        return
    data = {"text/plain": text, PROGRAM_MIME_TYPE: encode(program.snapshot())}
    display(data, raw=True)


def begin(topology: str, mesh: str | None, *, slices: int) -> None:
    """Make this process a rehearsal, with the names `mesh` and `pod` in its namespace.

    Raises:
      NbdistError: The rehearsal is not possible.
    """
    resident = RehearsalState(topology, mesh, slices)
    resident.rehearsal.begin()
    shell = get_ipython()
    names: dict[str, Any] = {"pod": resident.rehearsal.pod}
    if resident.rehearsal.mesh is not None:
        names["mesh"] = resident.rehearsal.mesh
    shell.user_ns.update(names)
    shell.set_custom_exc((NbdistError,), _shown_alone)
    shell.nbdist_resident = resident


def cell_begins(*, value: float | None, report: str | None = None) -> None:
    """Begin a cell; called before each.

    Args:
      value: Stands in for values in the cell.
      report: The file that gets its programs, which are then not shown; None to show them.
    """
    get_ipython().nbdist_resident.cell_begins(value, report)


def _shown_alone(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    **_: Any,
) -> list[str]:
    """Show the user's frames of one of nbdist's errors, and none below them."""
    cut_to_users(trace)
    shown = shell.InteractiveTB.structured_traceback(kind, error, trace)
    shell._showtraceback(kind, error, shown)
    return list(shown)
