"""Cells of rehearsals: which process runs one, and how its outputs reach the notebook."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Mapping
from typing import Any

from IPython.display import clear_output, display

from nbdist.contract.page import PROGRAM_MIME_TYPE
from nbdist.contract.snapshot import Snapshot
from nbdist.contract.wire import decode
from nbdist.errors import OptionError
from nbdist.rehearsing.asked import AskedPod, read_asked
from nbdist.rehearsing.process import RehearsalProcess
from nbdist.spelling import option
from nbdist.view.one_frame import OneFrame
from nbdist.view.picture import Picture


class Rehearsing:
    """The rehearsal of a notebook: one process at a time, kept between cells.

    Args:
      in_notebook: Whether there are pictures; else there is text.
    """

    def __init__(self, *, in_notebook: bool = False) -> None:
        self._in_notebook = in_notebook
        self._process: RehearsalProcess | None = None

    def run(
        self,
        code: str,
        *,
        topology: str | None,
        mesh: str | None,
        slices: int = 1,
        value: float | None = None,
        timeout_s: float | None = None,
        restart: bool = False,
    ) -> None:
        """Runs a cell in the rehearsal of a pod, which is begun where none is there or another was asked for.

        Args:
          code: Of the cell.
          topology: None for the pod of the cell before.
          mesh: Its axes; None for that of the cell before, or for none.
          slices: So many of the topology.
          value: What stands in for values.
          timeout_s: None for no limit.
          restart: Whether to start over.

        Raises:
          OptionError: The pod cannot be.
          RehearsalError: The process could not be started, or ended.
          ProcessError: The cell raised.
          CellTimeout: It took longer.
        """
        self._begin(self._asked(topology, mesh, slices), restart=restart)
        assert self._process is not None
        self._process.run(code, value=value, timeout_s=timeout_s, shown=self._show)

    def end(self) -> None:
        """Ends the process, if one is there."""
        if self._process is not None:
            process, self._process = self._process, None
            atexit.unregister(process.end)
            process.end()

    def _show(self, kind: str, content: Mapping[str, Any]) -> None:
        show(kind, content, in_notebook=self._in_notebook)

    def _asked(self, topology: str | None, mesh: str | None, slices: int) -> AskedPod:
        if topology is not None:
            return read_asked(topology, mesh, slices=slices)
        if self._process is None:
            raise OptionError(
                f"%%dist_rehearse: {option('topology')} is missing: the pod to rehearse for, such as "
                f"{option('topology', 'v5e:4x4')}."
            )
        before = self._process.pod
        return before if mesh is None else read_asked(before.topology, mesh, slices=before.slices)

    def _begin(self, asked: AskedPod, *, restart: bool) -> None:
        process = self._process
        if process is not None and process.alive and process.pod == asked and not restart:
            return
        if process is not None:
            why = "as asked" if restart else f"for {asked}" if process.alive else "as it had ended"
            print(f"The rehearsal starts over, {why}; names of the cells before are gone.")
        self.end()
        self._process = RehearsalProcess(asked)
        atexit.register(self._process.end)


def show(kind: str, content: Mapping[str, Any], *, in_notebook: bool) -> None:
    """Shows an output of a rehearsal's process in the notebook.

    Args:
      kind: As Jupyter names it.
      content: Of the message.
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
