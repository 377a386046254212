"""Cells of rehearsals: which process runs one, and how its outputs reach the notebook.

`Rehearsing` keeps a process for each mesh from one cell to the next. With one mesh, outputs and programs are shown
as they come; with several, the cell runs side by side as one `OneCell` for each, and the results are compared at
the end.
"""

from __future__ import annotations

import atexit
import re
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from IPython.display import clear_output, display

from nbdist.contract.page import PROGRAM_MIME_TYPE
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode
from nbdist.errors import OptionError, ProcessError
from nbdist.rehearsal.run.asked import AskedPod, ReportFile, read_each
from nbdist.rehearsal.run.comparison import Comparison, Rehearsed
from nbdist.rehearsal.run.process import RehearsalProcess
from nbdist.rehearsal.run.side_by_side import Phase, Progress, side_by_side
from nbdist.spelling import option
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture

_COLOR = re.compile(r"\x1b\[[0-9;]*m")


class OneCell:
    """A cell on one of the meshes: one of several rehearsals side by side.

    Args:
      code: The cell's code.
      pod: The pod, with its mesh.
      process: The process that has run the cells before; None to begin one.
      value: The number that stands in for values; None for none.
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


class Rehearsing:
    """The rehearsals of a notebook: a process for each mesh that was asked for last, kept between cells.

    Args:
      in_notebook: Whether programs are shown as pictures; else as text.
    """

    def __init__(self, *, in_notebook: bool = False) -> None:
        self._in_notebook = in_notebook
        self._pods: tuple[AskedPod, ...] = ()
        self._processes: dict[AskedPod, RehearsalProcess] = {}

    def run(
        self,
        code: str,
        *,
        topology: str | None,
        meshes: Sequence[str],
        slices: int = 1,
        value: float | None = None,
        timeout_s: float | None = None,
        restart: bool = False,
        progress: Progress = lambda states: None,
    ) -> Comparison | None:
        """Run a cell in the rehearsal of a pod, which is begun where there is none or another was asked for.

        Args:
          code: The cell's code.
          topology: The topology of the pod; None for the pod of the cell before.
          meshes: The axes of each mesh; none for those of the cell before, or for no mesh. With two or more the
            cell runs with each, side by side.
          slices: The number of slices of this topology.
          value: The number that stands in for values; None for none.
          timeout_s: The most seconds that the cell may take, with several meshes on each; None for no limit.
          restart: Whether to start over.
          progress: With several meshes, called with the state of each.

        Returns:
          The comparison of several meshes; None with one mesh, whose programs are shown as they are compiled.

        Raises:
          OptionError: There is no such pod; nothing was started.
          RehearsalError: The process could not be started, or ended.
          ProcessError: The cell raised; with several meshes, on all of them.
          CellTimeout: The cell took longer.
          KeyboardInterrupt: The cell was interrupted; with several meshes, all their processes have ended.
        """
        pods = self._asked(topology, meshes, slices)
        self._begin(pods, restart=restart)
        if len(pods) > 1:
            return self._compare(code, value=value, timeout_s=timeout_s, progress=progress)
        if not self._processes:
            self._processes[pods[0]] = RehearsalProcess(pods[0])
        self._processes[pods[0]].run(code, value=value, timeout_s=timeout_s, shown=self._show)
        return None

    def end(self) -> None:
        """End the processes, if there are any."""
        processes, self._processes = self._processes, {}
        atexit.unregister(self.end)
        for process in processes.values():
            process.end()

    def _show(self, kind: str, content: Mapping[str, Any]) -> None:
        show(kind, content, in_notebook=self._in_notebook)

    def _compare(
        self, code: str, *, value: float | None, timeout_s: float | None, progress: Progress
    ) -> Comparison:
        cells = [
            OneCell(code, pod=pod, process=self._processes.get(pod), value=value)
            for pod in self._pods
        ]
        try:
            comparison = side_by_side(cells, timeout_s=timeout_s, progress=progress)
        finally:
            self._processes = {cell.pod: cell.process for cell in cells if cell.process is not None}
        if all(one.failure for one in comparison.rehearsed):
            raise ProcessError(f"The cell failed with each mesh.\n\n{comparison.text()}")
        return comparison

    def _asked(
        self, topology: str | None, meshes: Sequence[str], slices: int
    ) -> tuple[AskedPod, ...]:
        if topology is not None:
            return read_each(topology, meshes, slices=slices)
        if not self._pods:
            raise OptionError(
                f"%%dist_rehearse: {option('topology')} is missing: the pod to rehearse for, such as "
                f"{option('topology', 'v5e:4x4')}."
            )
        before = self._pods[0]
        return read_each(before.topology, meshes, slices=before.slices) if meshes else self._pods

    def _begin(self, pods: tuple[AskedPod, ...], *, restart: bool) -> None:
        ended = [pod for pod, process in self._processes.items() if not process.alive]
        if self._processes and (pods != self._pods or ended or restart):
            many = "; ".join(map(str, pods))
            why = (
                "as asked"
                if restart
                else f"as that of {ended[0]} had ended"
                if ended
                else f"for {many}"
            )
            print(f"The rehearsal starts over, {why}; names of the cells before are gone.")
            self.end()
        self._pods = pods
        atexit.unregister(self.end)
        atexit.register(self.end)


def show(kind: str, content: Mapping[str, Any], *, in_notebook: bool) -> None:
    """Show an output of a rehearsal's process in the notebook.

    Args:
      kind: The kind of the message, as Jupyter names it.
      content: The content of the message.
      in_notebook: Whether a program is shown as a picture; else as text.
    """
    program = content["data"].get(PROGRAM_MIME_TYPE) if kind == "display_data" else None
    if program is not None:
        found = decode(Snapshot, program)
        Picture(OneFrame(found), lambda: found).show(in_notebook=in_notebook)
    elif kind == "stream":
        stream = sys.stderr if content["name"] == "stderr" else sys.stdout
        stream.write(content["text"])
        stream.flush()
    elif kind in ("display_data", "execute_result"):
        display(dict(content["data"]), raw=True, metadata=dict(content["metadata"]))
    elif kind == "clear_output":
        clear_output(wait=content["wait"])
