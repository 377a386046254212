"""Output that libraries write to the file descriptors themselves, passed on as output of the cell.

XLA and TensorFlow write warnings and last words from C++, past `sys.stderr`. The engine's descriptors 1 and 2 lead
to a private file, so that the text outlives the process; this module reads that file.
"""

from __future__ import annotations

import codecs
import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nbdist.engine.cell.gloo import Gloo
from nbdist.machine.log_tail import CHATTER
from nbdist.message_guard import MessageGuard
from nbdist.quantities import bytes_text

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 0.2

LARGEST_READ = 1 << 18

MOST_BEHIND = 16 << 20
"""Most unread bytes that are passed on where a program writes faster than the reader; older ones are skipped."""


class Descriptors:
    """Reader of the file named in `NBDIST_LOG`; does nothing where the variable is not set.

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
        """Publish all that has been written so far; with nothing new this costs one `fstat`. Raise nothing."""
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
        while True:
            time.sleep(PERIOD_SECONDS)
            self.flush()
