"""The side panel's door: frames for every front end of this kernel, whether it asked or not."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from comm import get_comm_manager

from nbdist.contract.messages import AskValues, Hello, read_request
from nbdist.contract.page import COMM_ID, TARGET
from nbdist.view.asked import answer_values
from nbdist.view.feed import Feed, Plain
from nbdist.view.kernel import broadcast, forget_reply_shell, running_kernel
from nbdist.view.repeated import RepeatedOutputs

REPEAT_SECONDS = 2.0
"""How often the full state is repeated."""


@dataclass(frozen=True, slots=True)
class Channel:
    """Broadcasts a feed's frames. Channels of one feed are equal, so opening a second changes nothing."""

    feed: Feed
    kernel: Any = field(default_factory=running_kernel, compare=False)
    _outputs: RepeatedOutputs = field(default_factory=RepeatedOutputs, init=False, compare=False)

    def open(self) -> None:
        """Starts to broadcast and to answer; the channel opened last is the one that answers.

        Does nothing where there is no Jupyter kernel.
        """
        if self.kernel is None:
            return
        get_comm_manager().register_target(TARGET, self._opened)
        self.feed.attach(self, repeat_seconds=REPEAT_SECONDS)

    def close(self) -> None:
        """Stops to broadcast."""
        self.feed.detach(self)

    def take(self, frame: Plain) -> None:
        """Sends one frame, and after a full one what running cells have shown; called by the feed."""
        broadcast(self.kernel, COMM_ID, frame)
        if frame["base"] is None and self.feed.outputs is not None:
            outputs = self._outputs.due(self.feed.outputs, time.monotonic())
            if outputs is not None:
                broadcast(self.kernel, COMM_ID, outputs)

    def _answer(self, answer: Plain) -> None:
        broadcast(self.kernel, COMM_ID, answer)

    def _opened(self, comm: Any, message: dict[str, Any]) -> None:
        forget_reply_shell(comm)
        comm.on_msg(self._received)
        self._received(message)

    def _received(self, message: dict[str, Any]) -> None:
        match read_request(message["content"]["data"]):
            case Hello():
                self.feed.refresh(self)
            case AskValues(path=path):
                answer_values(self.feed, self.kernel, path, self._answer)
