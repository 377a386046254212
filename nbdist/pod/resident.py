"""What stays in a rehearsal's process between cells."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

from IPython.core.getipython import get_ipython

from nbdist.contract.program import Program
from nbdist.errors import NbdistError
from nbdist.pod.lines import cut_to_users
from nbdist.pod.rehearsal import Rehearsal
from nbdist.pod.report import Report


class Resident:
    """The rehearsal of this process, and what the cell has reported."""

    def __init__(self, topology: str, mesh: str | None, slices: int) -> None:
        self._report: Report | None = None
        self.rehearsal = Rehearsal(
            topology, slices=slices, mesh=mesh, compiled=self._compiled, begins=self._begins
        )

    def cell_begins(self, value: float | None, report: str | None) -> None:
        """Programs are shown again, once in this cell."""
        self._report = Report(Path(report) if report is not None else None, show=report is None)
        self.rehearsal.trace.stand_in = value

    def _begins(self, name: str) -> None:
        if self._report is not None:
            self._report.begins(name)

    def _compiled(self, program: Program) -> None:
        if self._report is not None:
            self._report.compiled(program)


def begin(topology: str, mesh: str | None, *, slices: int) -> None:
    """Makes this process a rehearsal; `mesh` and `rehearsal` are names in it.

    Raises:
      NbdistError: It cannot be.
    """
    resident = Resident(topology, mesh, slices)
    resident.rehearsal.begin()
    shell = get_ipython()
    names: dict[str, Any] = {"pod": resident.rehearsal.pod}
    if resident.rehearsal.mesh is not None:
        names["mesh"] = resident.rehearsal.mesh
    shell.user_ns.update(names)
    shell.set_custom_exc((NbdistError,), _shown_alone)
    shell.nbdist_resident = resident


def cell_begins(*, value: float | None, report: str | None = None) -> None:
    """Called before each cell.

    Args:
      value: What stands in for values in it.
      report: The file that gets its programs, which are then not printed; None to print them.
    """
    get_ipython().nbdist_resident.cell_begins(value, report)


def _shown_alone(
    shell: Any,
    kind: type[BaseException],
    error: BaseException,
    trace: TracebackType | None,
    **_: Any,
) -> list[str]:
    """Of nbdist's errors the user's frames are shown, and none below them."""
    cut_to_users(trace)
    shown = shell.InteractiveTB.structured_traceback(kind, error, trace)
    shell._showtraceback(kind, error, shown)
    return list(shown)
