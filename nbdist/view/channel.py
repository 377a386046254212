"""Channel from this kernel to its front ends: frames of the view, answers to it, outputs and mode of cells.

Messages pass in both directions even while a cell runs. Only a request that needs the processes waits until the
cell has ended.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import comm as comms
from ipykernel.kernelbase import Kernel

from nbdist.contract.page import (
    COMM_ID,
    TARGET,
    AskValues,
    CellMode,
    Hello,
    Outputs,
    Values,
    ValuesPicture,
    read_request,
)
from nbdist.contract.wire import encode
from nbdist.errors import NbdistError
from nbdist.spelling import Door, through
from nbdist.view.feed import Feed, OutputsOf, Plain, Source


def running_kernel() -> Any | None:
    """Return the Jupyter kernel of this process; None in a terminal or a script."""
    if not Kernel.initialized():
        return None
    return Kernel.instance()


def broadcast(kernel: Any, comm_id: str, data: dict[str, Any]) -> None:
    """Send `data` as a message of a comm to every front end, from any thread.

    The message has no parent: a comm's own `send` would name the running cell as the parent, and ipykernel would
    then keep this comm's commands waiting until that cell has ended.
    """
    kernel.session.send(
        kernel.iopub_socket,
        "comm_msg",
        {"comm_id": comm_id, "data": data},
        parent=None,
        ident=f"comm-{comm_id}".encode(),
    )


def forget_reply_shell(comm: Any) -> None:
    """Let the front end's messages on `comm` arrive while a cell runs.

    ipykernel 7.4 sends them to the shell that last used the comm; if a cell made the comm, that shell is busy.
    With nothing remembered, ipykernel uses the subshell that the front end asked for. The attribute is private:
    if there is none, messages wait for the cell, and frames are sent all the same.
    """
    vars(comm).pop("_reply_subshell_id", None)


def answer_values(
    feed: Source, kernel: Any, path: str, send: Callable[[dict[str, Any]], None]
) -> None:
    """Answer a request for a summary of the array under a path.

    The request arrives on a separate thread (a subshell), but a session may be used only on the thread that runs
    cells. So the processes are asked on that thread, after the running cell.

    Args:
      feed: The session's feed.
      kernel: The Jupyter kernel.
      path: The array's path.
      send: Sends a message to the view that asked.
    """
    kernel.io_loop.add_callback(lambda: send(encode(_values(feed, path))))


def _values(feed: Source, path: str) -> Values:
    if feed.values is None:
        return Values(path=path, error="No session is running.")
    try:
        with through(Door.MAGIC):
            found = feed.values(path)
    except NbdistError as error:
        return Values(path=path, error=str(error))
    picture = found["picture"] and ValuesPicture(**found["picture"])
    return Values(path=path, text=found["text"], picture=picture)


BYTES_PER_SECOND = 200_000
"""The most bytes a second that repeated outputs take on average: large outputs are repeated more rarely."""

UNCHANGED_SECONDS = 10.0
"""Seconds between repetitions of outputs that have not changed."""


class RepeatedOutputs:
    """Outputs of running cells, sent repeatedly for a page that is reloaded while a cell runs.

    A reloaded page cannot ask for the outputs: a comm that it opens reaches this kernel only when the cell has
    ended. Used on one thread.
    """

    def __init__(self) -> None:
        self._running: list[str] = []
        self._sent = 0
        self._sent_at = float("-inf")
        self._not_before = float("-inf")

    def due(self, outputs: OutputsOf, now: float) -> dict[str, Any] | None:
        """Return the message to send now; None if no cell runs, or if the last message is too recent.

        The end of a cell is also sent, once.

        Args:
          outputs: Returns what cells have shown.
          now: The time in seconds by a monotonic clock.
        """
        if now < self._not_before:
            return None
        cells = outputs(self._running)
        if not cells:
            return None
        message: dict[str, Any] = encode(Outputs(cells=tuple(cells)))
        text = json.dumps(message, default=str)
        content = hash(text)
        if content == self._sent and now - self._sent_at < UNCHANGED_SECONDS:
            return None
        self._running = [cell.cell for cell in cells if cell.running]
        self._sent, self._sent_at = content, now
        self._not_before = now + len(text) / BYTES_PER_SECOND
        return message


REPEAT_SECONDS = 2.0
"""Seconds between repetitions of the full state."""


@dataclass(frozen=True, slots=True)
class Broadcast:
    """Sink that sends a feed's frames to every front end, unasked: the side panel needs them.

    Broadcasts of one feed are equal, so opening a second one changes nothing. `on_processes` returns whether plain
    cells run on the processes; None where there is no such mode.
    """

    feed: Feed
    kernel: Any = field(default_factory=running_kernel, compare=False)
    on_processes: Callable[[], bool] | None = field(default=None, compare=False)
    _outputs: RepeatedOutputs = field(default_factory=RepeatedOutputs, init=False, compare=False)

    def open(self) -> None:
        """Start to broadcast and to answer requests; only the broadcast opened last answers.

        Without a Jupyter kernel nothing happens.
        """
        if self.kernel is None:
            return
        # Looked up now: ipykernel puts its own manager in the place of the library's when it is imported.
        comms.get_comm_manager().register_target(TARGET, self._opened)
        self.feed.attach(self, repeat_seconds=REPEAT_SECONDS)

    def close(self) -> None:
        """Stop broadcasting."""
        self.feed.detach(self)

    def say_mode(self) -> None:
        """Send whether plain cells run on the processes."""
        if self.kernel is not None and self.on_processes is not None:
            broadcast(self.kernel, COMM_ID, encode(CellMode(on_processes=self.on_processes())))

    def take(self, frame: Plain) -> None:
        """Send one frame, and after a full frame the mode and the outputs of cells; called by the feed."""
        broadcast(self.kernel, COMM_ID, frame)
        if frame["base"] is None:
            self.say_mode()
        if frame["base"] is None and self.feed.outputs is not None:
            outputs = self._outputs.due(self.feed.outputs, time.monotonic())
            if outputs is not None:
                broadcast(self.kernel, COMM_ID, outputs)

    def _opened(self, comm: Any, message: dict[str, Any]) -> None:
        forget_reply_shell(comm)
        comm.on_msg(self._received)
        self._received(message)

    def _received(self, message: dict[str, Any]) -> None:
        match read_request(message["content"]["data"]):
            case Hello():
                self.feed.refresh(self)
            case AskValues(path=path):
                send = partial(broadcast, self.kernel, COMM_ID)
                answer_values(self.feed, self.kernel, path, send)
