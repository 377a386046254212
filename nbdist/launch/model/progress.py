"""How far a start is, for whoever shows it."""

from __future__ import annotations

from collections.abc import Callable

StartProgress = Callable[[str, int, int], None]
"""Called with a stage's words, how many processes (or hosts) have reached it, and how many there are."""

POLL_SECONDS = 0.01


def silent(stage: str, done: int, total: int) -> None:
    """A `StartProgress` for whom nobody listens."""
