"""The labels of requests, by which an engine knows what is asked before it has unpickled it."""

from __future__ import annotations

LOOKS = frozenset({"complete", "inspect", "layout"})
"""Calls that one process alone gets, and in which an attribute of a user's object may compute."""

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
"""Calls that run what a person wrote, or wait for others; the rest would be left half done by an interrupt."""

PREFIX = "nbdist."


def interruptible(label: str | None) -> bool:
    """Whether what a request with this label calls may be interrupted; what is not ours may be."""
    if label is None or not label.startswith(PREFIX):
        return True
    return label.removeprefix(PREFIX) in INTERRUPTIBLE
