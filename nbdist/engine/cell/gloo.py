"""Messages that gloo writes whenever a group of devices is complete, removed from a process's output.

Each message is `[Gloo] Rank 1 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3` and a
line end, written in eight parts (gloo/context.cc, as in jaxlib 0.10.0 to 0.12.0.1). Several threads write at once.
So the parts of several messages may be mixed, and the end of one may follow on the line of another.
"""

from __future__ import annotations

import re
import time

MESSAGE = b"[Gloo] Rank "
"""The first part of each message; a message has one line end."""

PARTS = re.compile(
    rb"(?:\[Gloo\] Rank |\d+| is connected to | peer ranks\. |Expected number of connected peer ranks is : )*\n?"
)
SIGNS = (b"[Gloo]", b"peer ranks")
"""A line without any of these belongs to a message only while the line ends of other messages are missing."""

REFUSED = re.compile(
    rb"gloo/transport/tcp/debug_logger\.cc:\d+\] ERROR failed to connect, .* remote=\[(?:0\.0\.0\.0|::)\]"
)
"""Error of gloo at each attempt to connect to nobody; see `nbdist.engine.frameworks.jax.step.meeting`."""

REST_SECONDS = 30.0
"""Longest wait for the end of a message. A thread writes the end at once, unless it gets no processor."""


class Gloo:
    """Filter that removes gloo's messages from bytes that are read piece by piece."""

    def __init__(self) -> None:
        self._rest = b""
        self._since = 0.0
        self._due = 0

    @property
    def is_late(self) -> bool:
        """Return whether a line that looked like gloo's has had no end for too long: it is somebody else's."""
        return bool(self._rest) and time.monotonic() - self._since > REST_SECONDS

    def left_of(self, new: bytes) -> bytes:
        """Return the bytes to show, of those kept back before and of the new ones."""
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
