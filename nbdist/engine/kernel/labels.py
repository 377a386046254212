"""The labels of requests, by which an engine knows a call before it unpickles it."""

from __future__ import annotations

LOOKS = frozenset({"complete", "inspect", "layout"})
"""Calls that go to one process alone, and in which an attribute of a user's object may compute."""

INTERRUPTIBLE = LOOKS | {
    *(
        "initialize",
        "offer",
        "widget",
        "digests",
        "receive",
        "ready",
        "shards",
        "nan",
        "program",
        "summary",
        "save_arrays",
        "read_arrays",
    )
}
"""Calls that run user code, or wait for others; an interrupt would leave other calls half done."""

PREFIX = "nbdist."


def interruptible(label: str | None) -> bool:
    """Return whether the call of a request with this label may be interrupted; a call of others may be."""
    if label is None or not label.startswith(PREFIX):
        return True
    return label.removeprefix(PREFIX) in INTERRUPTIBLE
