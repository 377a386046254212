"""The memory that this process takes."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path


def rss_bytes() -> int:
    """Return the resident memory of this process, in bytes; its peak if the system gives no more."""
    with contextlib.suppress(OSError):
        pages = Path("/proc/self/statm").read_bytes().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
