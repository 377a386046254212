"""The process of a rehearsal: an IPython kernel of the same Python, which has libtpu and no session."""

from __future__ import annotations

import os
import queue
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from jupyter_client.manager import KernelManager

from nbdist.errors import CellTimeout, ProcessError, RehearsalError
from nbdist.rehearsal.plan import libtpu
from nbdist.rehearsal.run.asked import LOOKED_AT, AskedPod, how_it_ended, lacks_memory, variables

LOOKED_S = 0.2
"""How often the loop that shows outputs checks whether the process is alive."""

GRACE_S = 5
"""How long an interrupted cell may take to end; the compiler does not end in the middle."""

START_S = 120
"""How long a process may take to start."""

_LAST = 4000
"""Characters of a process's last output that are shown."""


@dataclass(frozen=True, slots=True)
class CellReply:
    """How a cell ended.

    Attributes:
      error: The name and text of what it raised; empty where it ended well.
      traceback: As IPython shows it.
    """

    error: str = ""
    traceback: str = ""


Shown = Callable[[str, Mapping[str, Any]], None]
"""Called with each output of a cell: its kind, as Jupyter names it, and its content."""


class RehearsalProcess:
    """One process, and the rehearsal in it.

    Args:
      pod: The pod it rehearses for.
      wait: Whether to wait until it has started; else `advance` starts it.

    Raises:
      RehearsalError: It could not be started; says why.
    """

    def __init__(self, pod: AskedPod, *, wait: bool = True) -> None:
        self.pod = pod
        self.reply = CellReply()
        """How the last cell ended."""
        self.ended = False
        self._state: Literal["starting", "beginning", "running", "idle"] = "starting"
        self._shown: Shown = _not_shown
        self._asked = ""
        self._until = time.monotonic() + START_S
        found = libtpu.find()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._manager = KernelManager()
        self._manager.start_kernel(
            env=variables(os.environ, found), stdout=self._log, stderr=self._log
        )
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        try:
            while wait and not self.idle:
                self.advance(LOOKED_S)
        except BaseException:
            self.end()
            raise

    @property
    def alive(self) -> bool:
        """Return whether the process is alive."""
        return not self.ended and bool(self._manager.is_alive())

    @property
    def started(self) -> bool:
        """Return whether it can be given cells."""
        return self._state in ("running", "idle")

    @property
    def idle(self) -> bool:
        """Return whether it can be given a cell, and runs none."""
        return self._state == "idle"

    def run(
        self,
        code: str,
        *,
        value: float | None,
        timeout_s: float | None,
        shown: Shown,
    ) -> None:
        """Run a cell.

        Args:
          code: Of the cell.
          value: What stands in for values.
          timeout_s: None for no limit.
          shown: Called with each output: its kind, as Jupyter names it, and its content.

        Raises:
          ProcessError: The cell raised.
          RehearsalError: The process ended.
          CellTimeout: It took longer; the process has ended if the compiler did not stop.
          KeyboardInterrupt: It was interrupted; likewise.
        """
        until = time.monotonic() + timeout_s if timeout_s is not None else None
        self.submit(code, value=value, shown=shown)
        try:
            self._finish(until=until)
        except KeyboardInterrupt:
            said = self._stop()
            if said:
                shown("stream", {"name": "stderr", "text": said.strip() + "\n"})
            raise
        except TimeoutError:
            raise CellTimeout(
                f"The cell did not finish within --timeout {timeout_s:g} and was interrupted.{self._stop()}"
            ) from None
        if self.reply.error:
            raise ProcessError(self.reply.error, shown=self.reply.traceback)

    def submit(
        self, code: str, *, value: float | None, shown: Shown, report: Path | None = None
    ) -> None:
        """Begin a cell; it goes on as long as `advance` is called and the process is not idle.

        Args:
          code: The cell's code.
          value: Stands in for values.
          shown: Called with each output.
          report: The file that gets its programs, which are then not among the outputs; None for none.
        """
        path = None if report is None else str(report)
        self._ask(
            f"from nbdist.rehearsal.pod.resident import cell_begins as _begins\n"
            f"_begins(value={value!r}, report={path!r})\ndel _begins",
            _not_shown,
        )
        self._ask(code, shown)
        self._state = "running"

    def advance(self, wait_s: float) -> None:
        """Take one step of a start, or one output of a cell.

        Args:
          wait_s: How long to wait for it.

        Raises:
          RehearsalError: The process did not start, or ended; it is then gone.
        """
        try:
            message = self._client.get_iopub_msg(timeout=wait_s)
        except queue.Empty:
            self._nothing_came()
            return
        if self._state == "starting":
            # What the process publishes arrives from now on.
            self._state = "beginning"
            pod = self.pod
            self._ask(
                f"from nbdist.rehearsal.pod.resident import begin as _begin\n"
                f"_begin({pod.topology!r}, {pod.mesh!r}, slices={pod.slices})\ndel _begin",
                _not_shown,
            )
        elif message["parent_header"].get("msg_id") == self._asked:
            self._take(message["msg_type"], message["content"])

    def end(self) -> None:
        """End the process; everything in it is gone."""
        if self.ended:
            return
        self.ended = True
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
        self._log.close()

    def _stop(self) -> str:
        """Interrupt the cell, and end the process if that does nothing; return a sentence about the end."""
        self._manager.interrupt_kernel()
        try:
            self._finish(until=time.monotonic() + GRACE_S)
        except (TimeoutError, RehearsalError):
            self.end()
            return (
                " The compiler does not stop in the middle, so the rehearsal's process was ended: its names are "
                "gone, and the next cell begins another."
            )
        return ""

    def _ask(self, code: str, shown: Shown) -> None:
        self._asked = self._client.execute(code, allow_stdin=False, stop_on_error=False)
        self._shown = shown
        self.reply = CellReply()

    def _finish(self, *, until: float | None) -> None:
        """Show outputs until the cell has ended."""
        while not self.idle:
            if until is not None and time.monotonic() > until:
                raise TimeoutError
            self.advance(LOOKED_S)

    def _take(self, kind: str, content: Mapping[str, Any]) -> None:
        if kind == "error":
            self.reply = CellReply(
                f"{content['ename']}: {content['evalue']}", "\n".join(content["traceback"])
            )
        elif kind != "status":
            self._shown(kind, content)
        elif content["execution_state"] == "idle":
            if self._state == "beginning" and self.reply.error:
                self.end()
                raise RehearsalError(self.reply.error.partition(": ")[2] or self.reply.error)
            self._state = "idle"

    def _nothing_came(self) -> None:
        if not self.alive:
            ended = self._ended()
            self.end()
            raise RehearsalError(ended)
        if self._state == "starting":
            if time.monotonic() > self._until:
                said = self._said()
                self.end()
                raise RehearsalError(
                    f"The rehearsal's process was not there after {START_S} s.{said}"
                )
            # It answers on the channel of outputs as well, once that is connected.
            self._client.kernel_info()

    def _ended(self) -> str:
        """Return a text that says how the process ended."""
        code = getattr(getattr(self._manager.provisioner, "process", None), "returncode", None)
        log = self._log_end()
        said = "" if lacks_memory(code, log) else self._said()
        return f"{how_it_ended(code, log or ' ')} Its names are gone; the next cell begins another.{said}"

    def _log_end(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - LOOKED_AT))
        return self._log.read().decode(errors="replace").strip()

    def _said(self) -> str:
        text = self._log_end()[-_LAST:]
        return f" Its last output:\n{text}" if text else ""


def _not_shown(kind: str, content: Mapping[str, Any]) -> None:
    """Ignore output: the default for code that no person has written."""
