"""What libraries write to the file descriptors themselves, passed on as output of the cell.

XLA and TensorFlow write warnings and last words from C++, past `sys.stderr`. The engine's descriptors 1
and 2 lead to a private file, so that the words outlive the process; this reads along.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path

from nbdist.engine.cell.gloo import Gloo
from nbdist.machine.log_tail import CHATTER
from nbdist.message_guard import MessageGuard

logger = logging.getLogger(__name__)

PERIOD_SECONDS = 0.2

LARGEST_READ = 1 << 18


class Descriptors:
    """Follows the file named in `NBDIST_LOG`; does nothing where it is not set.

    Args:
      publish: Called with new text; from a thread of this object, or from `flush`'s caller.
    """

    def __init__(self, publish: Callable[[str], None]) -> None:
        self._publish = publish
        self._lock = threading.Lock()
        self._leave_out: tuple[Callable[[bytes], bytes], ...] = ()
        self._offset = 0
        self._file: int | None = None
        self._gloo = Gloo()
        self._guard = MessageGuard("Text of the file descriptors", logger)

    def start(self) -> None:
        """Begins at the present end of the file."""
        path = os.environ.get("NBDIST_LOG")
        if not path or not Path(path).exists():
            return
        self._file = os.open(path, os.O_RDONLY)
        self._offset = os.fstat(self._file).st_size
        threading.Thread(target=self._follow, name="nbdist-descriptors", daemon=True).start()

    def leave_out(self, known: Callable[[bytes], bytes]) -> None:
        """Has a framework's own chatter taken out as well; `known` answers what is left of new bytes."""
        self._leave_out = (*self._leave_out, known)

    def flush(self) -> None:
        """Publishes what has been written since; costs one `fstat` when that is nothing. Raises nothing."""
        if self._file is not None:
            with self._guard:
                self._publish_new(self._file)

    def _publish_new(self, file: int) -> None:
        with self._lock:
            size = os.fstat(file).st_size
            if size <= self._offset and not self._gloo.is_late:
                return
            new = os.pread(file, min(size - self._offset, LARGEST_READ), self._offset)
            self._offset += len(new)
            data = self._gloo.left_of(new)
        data = CHATTER.sub(b"", data)
        for known in self._leave_out:
            data = known(data)
        text = data.decode(errors="replace")
        if text.strip():
            self._publish(text)

    def _follow(self) -> None:
        while True:
            time.sleep(PERIOD_SECONDS)
            self.flush()
