"""How an engine names processes in what people read."""

from __future__ import annotations

import os
from collections.abc import Iterable

from nbdist.quantities import processes_text

ONE_HOST = "NBDIST_ONE_HOST"
"""Set where all processes of the session are on one host, which need not be said."""


def where(process_ids: Iterable[int], host: str) -> str:
    """`process 1 (host h1)`, all of them on one host; `process 1` where the session has no other host."""
    processes = processes_text(sorted(process_ids))
    return processes if ONE_HOST in os.environ else f"{processes} (host {host})"
