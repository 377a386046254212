"""Progress of a start, for anyone who shows it."""

from __future__ import annotations

from collections.abc import Callable

StartProgress = Callable[[str, int, int], None]
"""Called with the words of a stage, how many processes (or hosts) have reached it, and how many there are."""

POLL_SECONDS = 0.01


def silent(stage: str, done: int, total: int) -> None:
    """Ignore the progress: a `StartProgress` for a start that nobody watches."""
