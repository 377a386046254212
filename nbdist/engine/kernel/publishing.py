"""nbdist's messages on the engine's own output channel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from nbdist.contract.echo import Kept
from nbdist.contract.iopub import TYPES, Echo, content_of
from nbdist.contract.repeated import Encoder
from nbdist.contract.snapshot import Report


class Publisher:
    """A sender of messages: as output of a cell, or to every kernel that takes part.

    Attributes:
      request: The request of the cell that runs or ran last; None before the first. ipykernel keeps it in a
        context variable, which other threads do not see.

    Args:
      kernel: The kernel of this ipyparallel engine.
      process_id: Returns the number of this process in the launch plan.
    """

    def __init__(self, kernel: Any, process_id: Callable[[], int]) -> None:
        self.request: dict[str, Any] | None = None
        self._kernel = kernel
        self._process_id = process_id
        self._reports = Encoder()

    def publish(self, message: object) -> None:
        """Send a message of `nbdist.contract.iopub` as output of the cell that runs or ran last."""
        ident = f"engine.{self._kernel.engine_id}.step"
        self._send(*content_of(message), parent=self.request, ident=ident)

    def report(self, report: Report) -> None:
        """Send a report of the probe to every kernel that takes part."""
        self._to_all(TYPES[Report], self._reports.encode(report))

    def broadcast(self, message: object) -> None:
        """Send a message of `nbdist.contract.iopub` to every kernel that takes part, whatever it has asked for."""
        self._to_all(*content_of(message))

    def _to_all(self, kind: str, facts: dict[str, Any]) -> None:
        self._send(kind, facts, parent=None, ident=f"nbdist.{self._process_id()}")

    def echo(self, kept: Kept) -> None:
        """Send what is kept of the output of cells, for kernels that were not there."""
        process_id = self._process_id()
        echo = content_of(Echo(process_id=process_id, kept=kept))
        self._send(*echo, parent=None, ident=f"echo.{process_id}")

    def text(self, text: str) -> None:
        """Show text that was written past Python to the process's own descriptors."""
        if self.request is None:
            return  # written while the process started: it is in its log, and shown if it ends
        ident = f"engine.{self._kernel.engine_id}.stderr"
        self._send("stream", {"name": "stderr", "text": text}, parent=self.request, ident=ident)

    def _send(
        self, kind: str, facts: dict[str, Any], *, parent: dict[str, Any] | None, ident: str
    ) -> None:
        self._kernel.session.send(
            self._kernel.iopub_socket, kind, content=facts, parent=parent, ident=ident.encode()
        )
