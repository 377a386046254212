"""Output of a cell besides what Python prints: text from C++, and what is kept for later kernels.

`Descriptors` passes on what libraries write to the file descriptors themselves, without known noise such as gloo's
(`Gloo`). `KeptOutput` keeps messages for a kernel that attaches later.
"""

from __future__ import annotations

import codecs
import json
import logging
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from nbdist.contract.iopub import TYPES, Kept, KeptMessage, Prompting
from nbdist.machine.processes import CHATTER
from nbdist.message_guard import MessageGuard
from nbdist.notation import bytes_text

logger = logging.getLogger(__name__)

MESSAGE = b"[Gloo] Rank "
"""The first part of each message of gloo; a message has one line end."""

PARTS = re.compile(
    rb"(?:\[Gloo\] Rank |\d+| is connected to | peer ranks\. |Expected number of connected peer ranks is : )*\n?"
)
"""The pattern of a line of gloo's messages, with their parts in any order."""

SIGNS = (b"[Gloo]", b"peer ranks")
"""Signs of gloo's messages. A line without any of them belongs to a message only while the line ends of other
messages are missing."""

REFUSED = re.compile(
    rb"gloo/transport/tcp/debug_logger\.cc:\d+\] ERROR failed to connect, .* remote=\[(?:0\.0\.0\.0|::)\]"
)
"""The error of gloo at each attempt to connect to an ended meeting's address; see
`nbdist.engine.frameworks.jax.step.cut.Meetings`."""

REST_SECONDS = 30.0
"""Longest wait for the end of a message. Threads write the end at once, unless they get no processor."""


class Gloo:
    """A filter that removes gloo's messages from bytes that are read piece by piece.

    gloo writes a message whenever a group of devices is complete. Each message is `[Gloo] Rank 1 is connected to 3
    peer ranks. Expected number of connected peer ranks is : 3` and a line end, written in eight parts
    (gloo/context.cc, as in jaxlib 0.10.0 to 0.12.0.1). Several threads write at once. So the parts of several
    messages may be mixed, and the end of one may follow on the line of another.
    """

    def __init__(self) -> None:
        self._rest = b""
        self._since = 0.0
        self._due = 0

    @property
    def is_late(self) -> bool:
        """Return whether a line that looked like gloo's has lacked its end for too long, and so is not gloo's."""
        return bool(self._rest) and time.monotonic() - self._since > REST_SECONDS

    def left_of(self, new: bytes) -> bytes:
        """Return the bytes to show, out of the new ones and those kept back by earlier calls."""
        late = self.is_late and not new
        if late:
            self._due = 0
        *whole, last = (self._rest + new).splitlines(keepends=True) or [b""]
        if last.endswith(b"\n") or late or not self._is_gloos(last):
            whole.append(last)
            self._rest = b""
        else:
            self._rest, self._since = last, time.monotonic()
        return b"".join(line for line in whole if late or not self._taken(line))

    def _is_gloos(self, line: bytes) -> bool:
        """Return whether a line belongs, or may come to belong, to gloo's messages."""
        follows = self._due > 0 and PARTS.fullmatch(line) is not None
        return follows or any(sign in line for sign in SIGNS)

    def _taken(self, line: bytes) -> bool:
        if REFUSED.search(line) is not None:
            return True
        if not (self._is_gloos(line) and PARTS.fullmatch(line)):
            self._due = 0
            return False
        self._due = max(0, self._due + line.count(MESSAGE) - line.endswith(b"\n"))
        return True


PERIOD_SECONDS = 0.2
LONGEST_PERIOD_SECONDS = 1.0
"""Time between two looks for new text: the first after a look that has found some; longer and longer without."""

LARGEST_READ = 1 << 18
"""Most bytes that are read at a time."""

MOST_BEHIND = 16 << 20
"""Most unread bytes that are passed on where a program writes faster than the reader; older ones are skipped."""


class Descriptors:
    """A reader of text that libraries write past `sys.stderr`; does nothing where `NBDIST_LOG` is not set.

    XLA and TensorFlow write warnings and last words from C++. The engine's descriptors 1 and 2 lead to a private
    file, named in `NBDIST_LOG`, so that the text outlives the process. The text becomes output of the cell.

    Args:
      publish: Called with new text, on a thread of this object or on the thread that calls `flush`.
    """

    def __init__(self, publish: Callable[[str], None]) -> None:
        self._publish = publish
        self._lock = threading.Lock()
        self._leave_out: tuple[Callable[[bytes], bytes], ...] = ()
        self._path = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._offset = 0
        self._file: int | None = None
        self._gloo = Gloo()
        self._guard = MessageGuard("Text of the file descriptors", logger)

    def start(self) -> None:
        """Start to read at the present end of the file."""
        self._path = os.environ.get("NBDIST_LOG", "")
        if not self._path or not Path(self._path).exists():
            return
        self._file = os.open(self._path, os.O_RDONLY)
        self._offset = os.fstat(self._file).st_size
        threading.Thread(target=self._follow, name="nbdist-descriptors", daemon=True).start()

    def leave_out(self, known: Callable[[bytes], bytes]) -> None:
        """Remove a framework's own chatter as well; `known` returns the rest of new bytes."""
        self._leave_out = (*self._leave_out, known)

    def flush(self) -> None:
        """Publish all that has been written so far, and raise nothing; with nothing new this costs one `fstat`."""
        if self._file is not None:
            with self._guard, self._lock:
                self._publish_until(self._file, os.fstat(self._file).st_size)

    def _publish_until(self, file: int, size: int) -> None:
        if size - self._offset > MOST_BEHIND:
            left_out = size - MOST_BEHIND - self._offset
            self._offset += left_out
            self._publish(
                f"\n… {bytes_text(left_out)} of output not shown; all of it is in {self._path}\n"
            )
        while size > self._offset or self._gloo.is_late:
            new = os.pread(file, min(size - self._offset, LARGEST_READ), self._offset)
            self._offset += len(new)
            data = CHATTER.sub(b"", self._gloo.left_of(new))
            for known in self._leave_out:
                data = known(data)
            text = self._decoder.decode(data)
            if text.strip():
                self._publish(text)

    def _follow(self) -> None:
        period = PERIOD_SECONDS
        while True:
            time.sleep(period)
            before = self._offset
            self.flush()
            found = self._offset != before
            period = PERIOD_SECONDS if found else min(1.5 * period, LONGEST_PERIOD_SECONDS)


MOST_BYTES = 2 << 20
MOST_MESSAGES = 4000
"""Most bytes and messages that a process keeps; the oldest output is dropped first, and counted."""

MOST_REQUESTS = 100
"""Most requests for which the number of dropped messages is known."""

STDOUT = b".stdout"
"""The end of the topic of text that Python prints."""

DELIMITER = b"<IDS|MSG>"
"""The frame between topics and signature, header, parent, metadata, content (the Jupyter wire protocol)."""

KINDS = (
    *("stream", "display_data", "execute_result"),
    *("update_display_data", "clear_output", "error", TYPES[Prompting]),
)
"""Kinds of messages that show something."""


class KeptOutput:
    """The newest messages that this engine has published, kept for a kernel that attaches later.

    Output reaches only the kernels that listen when it is sent. Between the end of one kernel and the start of the
    next, none listens.

    Args:
      publisher: ipykernel's IOPubThread, or the socket that stands for it: all output goes through its public
        `send_multipart`.
      before_stdout: Called before text that Python has printed is sent, to send first what a library wrote
        earlier.
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
        # A child that the user has forked must not wait, when it prints, for a thread that it does not have.
        os.register_at_fork(after_in_child=self._unlock)

    def _unlock(self) -> None:
        self._lock = threading.Lock()

    def _send_and_keep(self, frames: Sequence[Any], *args: Any, **options: Any) -> None:
        if frames[0][-len(STDOUT) :] == STDOUT:
            self._before_stdout()
        self._send(frames, *args, **options)
        # The message has been sent. A failure to keep it must not raise in the code that has printed it.
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
