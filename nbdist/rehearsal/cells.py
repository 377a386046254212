"""Cells of rehearsals: the process that runs them, kept between cells, and the display of its outputs.

`Rehearsing` keeps a process for each mesh. With one mesh, outputs and programs are shown as they come; with
several, the cell runs side by side, and the results are compared at the end.
"""

from __future__ import annotations

import atexit
import queue
import re
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from IPython.display import clear_output, display
from jupyter_client.manager import KernelManager

from nbdist.contract.page import PROGRAM_MIME_TYPE
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode
from nbdist.errors import CellTimeout, NbdistError, OptionError, ProcessError, RehearsalError
from nbdist.rehearsal.comparison import Comparison
from nbdist.rehearsal.libtpu import LAST, end_of, how_it_ended, lacks_memory, process_variables
from nbdist.rehearsal.mesh import AskedPod, read_each
from nbdist.rehearsal.runs import GRACE_S, LOOKED_S, Run, SideBySideDisplay, side_by_side
from nbdist.spelling import option
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture

START_S = 120
"""How long a process may take to start."""

_COLOR = re.compile(r"\x1b\[[0-9;]*m")

Shown = Callable[[str, Mapping[str, Any]], None]
"""Called with each output of a cell: its kind, as Jupyter names it, and its content."""


class CellProcess(Run):
    """The process of a rehearsal (an IPython kernel of this Python, with libtpu), and the cell it runs.

    `take` gives it a cell, which `begin` and `advance` then run; the first cell starts the process.

    Args:
      pod: The pod it rehearses for.
    """

    def __init__(self, pod: AskedPod) -> None:
        super().__init__(pod)
        self._state: Literal["new", "starting", "beginning", "idle", "running", "ended"] = "new"
        self.has_names = False
        """Whether it has begun the rehearsal, so that its end loses the names of cells."""
        self._code = ""
        self._value: float | None = None
        self._shown: Shown | None = None
        self._submitted = False
        self._asked = ""
        self._error: ProcessError | None = None
        self._texts: list[str] = []

    @property
    def alive(self) -> bool:
        """Return whether the process is alive."""
        return self._state not in ("new", "ended") and bool(self._manager.is_alive())

    def take(self, code: str, *, value: float | None = None, shown: Shown | None = None) -> None:
        """Take a cell, to be begun next.

        Args:
          code: The cell's code.
          value: The number that stands in for values; None for none.
          shown: Called with each output; None to keep the texts, and to have programs reported instead.
        """
        self._code, self._value, self._shown = code, value, shown
        self._began = self._took = self.failure = None
        self._submitted, self._compiling, self._texts, self.programs = False, "", [], []

    def _start(self) -> None:
        if self._state != "new":
            return
        environment = process_variables()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._manager = KernelManager()
        self._manager.start_kernel(env=environment, stdout=self._log, stderr=self._log)
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        self._state = "starting"

    def _step(self, wait_s: float) -> bool:
        if self._state == "idle" and not self._submitted:
            self._submit()
        try:
            message = self._client.get_iopub_msg(timeout=wait_s)
        except queue.Empty:
            self._nothing_came()
            return False
        if self._state == "starting":
            # What the process publishes arrives from now on.
            self._state = "beginning"
            pod = self.pod
            self._ask(f"begin({pod.topology!r}, {pod.mesh!r}, slices={pod.slices})")
        elif message["parent_header"].get("msg_id") == self._asked:
            self._received(message["msg_type"], message["content"])
        return self._submitted and self._state == "idle"

    def _runs(self) -> bool:
        return self._submitted

    def _outcome(self) -> NbdistError | None:
        return self._error

    def _give_up(self, timeout_s: float) -> NbdistError:
        return CellTimeout(
            f"The cell did not finish within --timeout {timeout_s:g} and was interrupted.{self._stop()}"
        )

    def _printed(self) -> str:
        shown = self._error.shown if self._error is not None else ""
        return _COLOR.sub("", "".join([*self._texts, shown]))

    def interrupt(self) -> None:
        """Interrupt the cell; if the process must be ended, say so in the cell's outputs."""
        if not self._submitted or not self.alive:
            self.end()
        elif (said := self._stop()) and self._shown is not None:
            self._shown("stream", {"name": "stderr", "text": said.strip() + "\n"})

    def end(self) -> None:
        """End the process; everything in it is gone."""
        if self._state not in ("new", "ended"):
            self._client.stop_channels()
            self._manager.shutdown_kernel(now=True)
            self._manager.cleanup_resources()
            self._log.close()
        self._state = "ended"
        self._remove_report()

    def _stop(self) -> str:
        """Interrupt the cell, and end the process if that does nothing; return a sentence about the end."""
        self._manager.interrupt_kernel()
        until = time.monotonic() + GRACE_S
        try:
            while self._state == "running":
                if time.monotonic() > until:
                    raise TimeoutError
                self._step(LOOKED_S)
        except (TimeoutError, RehearsalError):
            self.end()
            return (
                " The compiler does not stop in the middle, so the rehearsal's process was ended: its names are "
                "gone, and the next cell begins another."
            )
        return ""

    def _submit(self) -> None:
        report = None if self._shown is not None else str(self.report)
        self._ask(f"cell_begins(value={self._value!r}, report={report!r})")
        self._asked = self._execute(self._code)
        self._state, self._submitted = "running", True
        self._began = time.monotonic()

    def _ask(self, call: str) -> None:
        """Call a function of `nbdist.rehearsal.rehearsal` in the process; leaves no name in its namespace."""
        name = call.partition("(")[0]
        source = f"from nbdist.rehearsal.rehearsal import {name} as _nbdist_{name}"
        self._asked = self._execute(f"{source}\n_nbdist_{call}\ndel _nbdist_{name}")

    def _execute(self, code: str) -> str:
        self._error = None
        return str(self._client.execute(code, allow_stdin=False, stop_on_error=False))

    def _received(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "error":
            said = f"{content['ename']}: {content['evalue']}"
            self._error = ProcessError(said, above="\n".join(content["traceback"]))
        elif kind != "status":
            self._output(kind, content)
        elif content["execution_state"] == "idle":
            if self._state == "beginning" and self._error is not None:
                self.end()
                said = str(self._error)
                raise RehearsalError(said.partition(": ")[2] or said)
            self._state, self.has_names = "idle", True

    def _output(self, kind: str, content: Mapping[str, Any]) -> None:
        if self._state != "running":
            return  # of code that no person has written
        if self._shown is not None:
            self._shown(kind, content)
        elif kind == "stream":
            self._texts.append(content["text"])
        elif kind in ("display_data", "execute_result"):
            self._texts.append(f"{content['data'].get('text/plain', '')}\n")

    def _nothing_came(self) -> None:
        if not self.alive:
            process = getattr(self._manager.provisioner, "process", None)
            code, log = getattr(process, "returncode", None), end_of(self._log)
            said = "" if lacks_memory(code, log) else _said(log)
            self.end()
            raise RehearsalError(
                f"{how_it_ended(code, log)} Its names are gone; the next cell begins another.{said}"
            )
        if self._state == "starting":
            if self.seconds > START_S:
                said = _said(end_of(self._log))
                self.end()
                raise RehearsalError(
                    f"The rehearsal's process was not there after {START_S} s.{said}"
                )
            # The process also answers on the output channel once that is connected.
            self._client.kernel_info()


def _said(log: str) -> str:
    return f" Its last output:\n{log[-LAST:]}" if log else ""


class Rehearsing:
    """The rehearsals of a notebook: one process for each mesh of the last request, kept between cells.

    Args:
      in_notebook: Whether programs are shown as pictures; else as text.
    """

    def __init__(self, *, in_notebook: bool = False) -> None:
        self._in_notebook = in_notebook
        self._pods: tuple[AskedPod, ...] = ()
        self._processes: dict[AskedPod, CellProcess] = {}

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
    ) -> Comparison | None:
        """Run a cell in the rehearsal of a pod; start one if there is none, or if the pod changes.

        Args:
          code: The cell's code.
          topology: The topology of the pod; None for the pod of the previous cell.
          meshes: The axes of each mesh; empty for the previous cell's, or for no mesh. With two or more the cell
            runs with each, side by side.
          slices: The number of slices of this topology.
          value: The number that stands in for values; None for none.
          timeout_s: The most seconds that the cell may take, with several meshes on each; None for no limit.
          restart: Whether to start over.

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
        processes = [self._processes.get(pod) or CellProcess(pod) for pod in pods]
        self._processes = dict(zip(pods, processes, strict=True))
        for process in processes:
            process.take(code, value=value, shown=self._show if len(pods) == 1 else None)
        progress = SideBySideDisplay(in_notebook=self._in_notebook)
        try:
            comparison = side_by_side(processes, timeout_s=timeout_s, progress=progress)
        finally:
            for process in processes:
                if not process.has_names:
                    self._processes.pop(process.pod).end()
        if len(pods) == 1:
            if (failure := processes[0].failure) is not None:
                raise failure
            return None
        if all(one.failure for one in comparison.rehearsed):
            raise ProcessError(f"The cell failed with each mesh.\n\n{comparison.text()}")
        return comparison

    def end(self) -> None:
        """End the processes, if there are any."""
        processes, self._processes = self._processes, {}
        atexit.unregister(self.end)
        for process in processes.values():
            process.end()

    def _show(self, kind: str, content: Mapping[str, Any]) -> None:
        show(kind, content, in_notebook=self._in_notebook)

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
            why = f"for {'; '.join(map(str, pods))}"
            if restart:
                why = "as asked"
            elif ended:
                why = f"as that of {ended[0]} had ended"
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
