"""The file that holds all the output of one process, once it is more than can be shown."""

from __future__ import annotations

import contextlib
import os
from io import BufferedWriter
from pathlib import Path

LARGEST_BYTES = 4 << 30
"""A file does not grow beyond this, so that a flood left alone overnight does not fill the disk."""


class Spool:
    """A private text file (mode 0600, in a folder of mode 0700), made when it is first needed.

    Attributes:
      problem: Why it does not hold everything, or None.
    """

    def __init__(self, path: Path, *, largest_bytes: int = LARGEST_BYTES) -> None:
        self.path = path
        self.problem: str | None = None
        self._largest = largest_bytes
        self._written = 0
        self._file: BufferedWriter | None = None

    @property
    def started(self) -> bool:
        """Whether there is a file, or was meant to be one."""
        return self._file is not None or self.problem is not None

    def start(self) -> None:
        """Makes the file; one of the same name from before is emptied."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # A name of ours that is a link was put there by somebody else.
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
            self._file = os.fdopen(os.open(self.path, flags, 0o600), "wb")
        except OSError as error:
            self._fail(error)

    def write(self, text: str) -> None:
        """Appends text; a full or unwritable disk is noted in `problem` and not raised."""
        if self._file is None:
            return
        data = text.encode("utf-8", "replace")
        if self._written + len(data) > self._largest:
            self._close(f"the file ends after {self._written:,} bytes")
            return
        self._written += len(data)
        try:
            self._file.write(data)
        except OSError as error:
            self._fail(error)

    def flush(self) -> None:
        """Makes what was written readable to others."""
        if self._file is not None:
            try:
                self._file.flush()
            except OSError as error:
                self._fail(error)

    def close(self) -> None:
        """Ends the file."""
        self.flush()
        self._close(None)

    def discard(self) -> None:
        """Removes the file: its text was cleared."""
        if self._file is not None:
            self._close(None)
            with contextlib.suppress(OSError):
                self.path.unlink()
        self.problem = None
        self._written = 0

    def _fail(self, error: OSError) -> None:
        self._close(f"not written: {error.strerror or error}")

    def _close(self, problem: str | None) -> None:
        file, self._file = self._file, None
        self.problem = problem if problem is not None else self.problem
        if file is not None:
            # Closing writes what is buffered, which fails once more on a full disk.
            with contextlib.suppress(OSError):
                file.close()
