"""Names of processes in text that people read."""

from __future__ import annotations

import os
from collections.abc import Iterable

from nbdist.quantities import processes_text

ONE_HOST = "NBDIST_ONE_HOST"
"""Environment variable, set where all processes of the session are on one host: text then names no host."""


def where(process_ids: Iterable[int], host: str) -> str:
    """Return `process 1 (host h1)` for processes of one host; `process 1` where the session has no other host."""
    processes = processes_text(sorted(process_ids))
    return processes if ONE_HOST in os.environ else f"{processes} (host {host})"
