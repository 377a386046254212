"""What gloo writes whenever a group of devices is complete, taken out of a process's output.

Each message is `[Gloo] Rank 1 is connected to 3 peer ranks. Expected number of connected peer ranks is : 3` and a
line end, written in eight parts (gloo/context.cc, as in jaxlib 0.10.0 to 0.12.0.1). Threads write at once, so that
the parts of several messages may be mixed, and the end of one may follow on the line of another.
"""

from __future__ import annotations

import re
import time

MESSAGE = b"[Gloo] Rank "
"""The first part of each message, which has one line end."""

PARTS = re.compile(
    rb"(?:\[Gloo\] Rank |\d+| is connected to | peer ranks\. |Expected number of connected peer ranks is : )*\n?"
)
SIGNS = (b"[Gloo]", b"peer ranks")
"""A line without any of these is a part of a message only where the line ends of others are still to come."""

REFUSED = re.compile(
    rb"gloo/transport/tcp/debug_logger\.cc:\d+\] ERROR failed to connect, .* remote=\[(?:0\.0\.0\.0|::)\]"
)
"""What gloo writes at each attempt to connect to nobody: see `nbdist.engine.frameworks.jax.step.meeting`."""

REST_SECONDS = 30.0
"""For so long the end of a message is waited for. A thread writes it at once, unless it gets no processor."""


class Gloo:
    """Takes the messages out of what is read piece by piece."""

    def __init__(self) -> None:
        self._rest = b""
        self._since = 0.0
        self._due = 0

    @property
    def is_late(self) -> bool:
        """Whether a line that looked like one of gloo's has not been ended for long: it is somebody else's."""
        return bool(self._rest) and time.monotonic() - self._since > REST_SECONDS

    def left_of(self, new: bytes) -> bytes:
        """What is to be shown: of what was kept before, and of what is new."""
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
        """Whether it is, or may become, a line of its messages."""
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
