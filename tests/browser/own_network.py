"""A network of the browser's own: a change to this machine's interfaces ends what a Chromium is fetching.

Tests of hosts add and remove interfaces while a browser runs; Chromium then fails requests, also to loopback, with
`net::ERR_NETWORK_CHANGED`. Where this user may not make namespaces, the browser stays in the machine's network.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CLONE_NEWNET = 0x40000000
"""Source: `linux/sched.h`. Python has `os.unshare` and `os.setns` since 3.12 only."""


class OwnNetwork:
    """A network namespace with nothing but loopback, made when it is first entered."""

    def __init__(self) -> None:
        self._file: int | None = None

    @contextmanager
    def entered(self) -> Iterator[None]:
        """What this thread starts or connects to meanwhile is in it."""
        here = _network_of_this_thread()
        entered = here is not None and self._enter()
        try:
            yield
        finally:
            if entered and not _call("setns", here, CLONE_NEWNET):
                raise OSError("The way back to the machine's network is closed.")
            if here is not None:
                os.close(here)

    def close(self) -> None:
        """Forgets it; it ends with the last process in it."""
        if self._file is not None:
            os.close(self._file)

    def _enter(self) -> bool:
        if self._file is not None:
            return _call("setns", self._file, CLONE_NEWNET)
        if not _call("unshare", CLONE_NEWNET):
            return False
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        self._file = _network_of_this_thread()
        return True


def _network_of_this_thread() -> int | None:
    path = Path("/proc/thread-self/ns/net")
    return os.open(path, os.O_RDONLY | os.O_CLOEXEC) if path.exists() else None


def _call(name: str, *arguments: int | None) -> bool:
    """Whether a function of the C library did what it was asked."""
    return bool(getattr(ctypes.CDLL(None), name)(*arguments) == 0)
