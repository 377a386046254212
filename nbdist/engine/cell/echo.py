"""Output that a process has shown lately, kept for a kernel that attaches later.

Output reaches only those who listen when it is sent. Between the end of one kernel and the next, nobody listens.
"""

from __future__ import annotations

import json
import logging
import os
import threading
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.contract.echo import Kept, KeptMessage
from nbdist.contract.iopub import TYPES, Prompting
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

MOST_BYTES = 2 << 20
MOST_MESSAGES = 4000
"""Limits for each process; the oldest output is dropped first, and counted."""

MOST_REQUESTS = 100
"""Most requests for which the number of dropped messages is known."""

STDOUT = b".stdout"
"""End of the topic of text that Python prints."""

DELIMITER = b"<IDS|MSG>"
"""Stands between topics and signature, header, parent, metadata, content (the Jupyter wire protocol)."""

KINDS = (
    *("stream", "display_data", "execute_result"),
    *("update_display_data", "clear_output", "error", TYPES[Prompting]),
)


class KeptOutput:
    """The newest messages that this engine has published.

    Args:
      publisher: ipykernel's IOPubThread, or the socket that stands for it: all output goes through its public
        `send_multipart`.
      before_stdout: Called before text that Python has printed is sent, to send what a program wrote before it.
    """

    def __init__(self, publisher: Any, before_stdout: Callable[[], None] = lambda: None) -> None:
        self._before_stdout = before_stdout
        self._publisher = getattr(publisher, "io_thread", publisher)
        self._send = self._publisher.send_multipart
        self._lock = threading.Lock()
        self._kept: deque[tuple[list[bytes], int]] = deque()
        self._bytes = 0
        self._lost: dict[str, int] = {}
        self._guard = MessageGuard("Output to be kept", logger)

    def install(self) -> None:
        """Start to keep messages."""
        self._publisher.send_multipart = self._send_and_keep
        # A fork of the user's that prints must not wait for a thread that the fork does not have.
        os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def _send_and_keep(self, frames: Sequence[Any], *args: Any, **options: Any) -> None:
        if frames[0][-len(STDOUT) :] == STDOUT:
            self._before_stdout()
        self._send(frames, *args, **options)
        # The message has been shown. A failure to keep it must not raise in the code that has printed it.
        with self._guard:
            topic = bytes(frames[0])
            if topic.startswith(b"engine.") and not topic.endswith((b".status", b".execute_input")):
                self._keep([bytes(frame) for frame in frames])

    def _keep(self, frames: list[bytes]) -> None:
        size = sum(map(len, frames))
        with self._lock:
            self._kept.append((frames, size))
            self._bytes += size
            while self._bytes > MOST_BYTES or len(self._kept) > MOST_MESSAGES:
                dropped, size = self._kept.popleft()
                self._bytes -= size
                request = _request(dropped)
                self._lost[request] = self._lost.pop(request, 0) + 1
                if len(self._lost) > MOST_REQUESTS:
                    del self._lost[next(iter(self._lost))]

    def of(self, request: str | None = None) -> Kept:
        """Return the kept messages of one request, or of all."""
        with self._lock:
            kept = [frames for frames, _ in self._kept]
            lost = dict(self._lost)
        messages = []
        for frames in kept:
            with self._guard:
                if (message := read(frames)) is not None:
                    messages.append(message)
        if request is not None:
            messages = [message for message in messages if message.parent == request]
            lost = {parent: count for parent, count in lost.items() if parent == request}
        return Kept(messages=tuple(messages), lost=lost)


def _request(frames: Sequence[bytes]) -> str:
    if DELIMITER not in frames:
        return ""
    return str(json.loads(frames[frames.index(DELIMITER) + 3]).get("msg_id", ""))


def read(frames: Sequence[bytes]) -> KeptMessage | None:
    """Return a published message in the form that is kept; None for one that shows nothing."""
    if DELIMITER not in frames:
        return None
    _, header, _, _, content, *_ = frames[frames.index(DELIMITER) + 1 :]
    head = json.loads(header)
    if head["msg_type"] not in KINDS:
        return None
    return KeptMessage(
        id=head["msg_id"],
        parent=_request(frames),
        kind=head["msg_type"],
        content=json.loads(content),
    )
