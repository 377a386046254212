"""A rehearsal's process: an IPython kernel of the same Python, which has libtpu and no session."""

from __future__ import annotations

import os
import queue
import signal
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from jupyter_client.manager import KernelManager

from nbdist.errors import CellTimeout, ProcessError, RehearsalError
from nbdist.rehearsal import libtpu
from nbdist.rehearsing.asked import AskedPod
from nbdist.rehearsing.ended import how_it_ended
from nbdist.rehearsing.variables import variables

LOOKED_S = 0.2
"""How often the loop that shows outputs looks whether the process is there."""

GRACE_S = 5
"""So long an interrupted cell may take to end; the compiler does not end in the middle."""

START_S = 120
"""So long a process may take to be there."""

_LAST = 4000
"""Characters of what a process wrote before it ended."""


@dataclass(frozen=True, slots=True)
class Reply:
    """How a cell ended.

    Attributes:
      error: The name and text of what it raised; empty where it ended well.
      traceback: As IPython shows it.
    """

    error: str = ""
    traceback: str = ""


class RehearsalProcess:
    """One process, and the rehearsal in it.

    Args:
      pod: What it rehearses for.

    Raises:
      RehearsalError: It could not be started; says why.
    """

    def __init__(self, pod: AskedPod) -> None:
        self.pod = pod
        found = libtpu.find()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115
        self._manager = KernelManager()
        self._manager.start_kernel(
            env=variables(os.environ, found), stdout=self._log, stderr=self._log
        )
        self._client = self._manager.blocking_client()
        self._client.start_channels()
        try:
            self._client.wait_for_ready(timeout=START_S)
            reply = self._run(
                f"from nbdist.pod.resident import begin as _begin\n"
                f"_begin({pod.topology!r}, {pod.mesh!r}, slices={pod.slices})\ndel _begin",
                shown=lambda kind, content: None,
                until=None,
            )
        except RuntimeError as error:
            said = self._said()
            self.end()
            raise RehearsalError(f"The rehearsal's process did not start: {error}{said}") from error
        except BaseException:
            self.end()
            raise
        if reply.error:
            self.end()
            raise RehearsalError(reply.error.partition(": ")[2] or reply.error)

    @property
    def alive(self) -> bool:
        """Whether the process is there."""
        return bool(self._manager.is_alive())

    def run(
        self,
        code: str,
        *,
        value: float | None,
        timeout_s: float | None,
        shown: Callable[[str, Mapping[str, Any]], None],
    ) -> None:
        """Runs a cell.

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
        self._run(
            f"from nbdist.pod.resident import cell_begins as _begins\n_begins(value={value!r})\ndel _begins",
            shown=shown,
            until=None,
        )
        try:
            reply = self._run(code, shown=shown, until=until)
        except KeyboardInterrupt:
            said = self._stop(shown)
            if said:
                shown("stream", {"name": "stderr", "text": said.strip() + "\n"})
            raise
        except TimeoutError:
            raise CellTimeout(
                f"The cell did not finish within --timeout {timeout_s:g} and was interrupted.{self._stop(shown)}"
            ) from None
        if reply.error:
            raise ProcessError(reply.error, shown=reply.traceback)

    def end(self) -> None:
        """Ends the process; everything in it is gone."""
        self._client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
        self._log.close()

    def _stop(self, shown: Callable[[str, Mapping[str, Any]], None]) -> str:
        """Interrupts the cell, and ends the process where that does nothing; returns a sentence for the latter."""
        self._manager.interrupt_kernel()
        try:
            self._finish(shown, until=time.monotonic() + GRACE_S)
        except (TimeoutError, RehearsalError):
            self.end()
            return (
                " The compiler does not stop in the middle, so the rehearsal's process was ended: its names are "
                "gone, and the next cell begins another."
            )
        return ""

    def _run(
        self,
        code: str,
        *,
        shown: Callable[[str, Mapping[str, Any]], None],
        until: float | None,
    ) -> Reply:
        self._asked = self._client.execute(code, allow_stdin=False, stop_on_error=False)
        self._reply = Reply()
        return self._finish(shown, until=until)

    def _finish(
        self, shown: Callable[[str, Mapping[str, Any]], None], *, until: float | None
    ) -> Reply:
        """Shows outputs until the cell has ended."""
        while True:
            if until is not None and time.monotonic() > until:
                raise TimeoutError
            try:
                message = self._client.get_iopub_msg(timeout=LOOKED_S)
            except queue.Empty:
                if not self.alive:
                    raise RehearsalError(self._ended()) from None
                continue
            if message["parent_header"].get("msg_id") != self._asked:
                continue
            kind, content = message["msg_type"], message["content"]
            if kind == "status" and content["execution_state"] == "idle":
                return self._reply
            if kind == "error":
                self._reply = Reply(
                    f"{content['ename']}: {content['evalue']}", "\n".join(content["traceback"])
                )
            else:
                shown(kind, content)

    def _ended(self) -> str:
        """What became of a process that is not there."""
        code = getattr(getattr(self._manager.provisioner, "process", None), "returncode", None)
        killed = code == -signal.SIGKILL
        said = "" if killed else self._said()
        return f"{how_it_ended(code)} Its names are gone; the next cell begins another.{said}"

    def _said(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LAST))
        text = self._log.read().decode(errors="replace").strip()
        return f" Its last output:\n{text}" if text else ""
