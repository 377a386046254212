"""Requests to a process that bypass its main thread: each is one letter, in a pipe of its own."""

from __future__ import annotations

from enum import StrEnum


class Aside(StrEnum):
    """One request, as a single letter: a pipe never splits a single byte, however many arrive at once."""

    REPEAT = "r"
    """Send again what a kernel that has just come must know."""

    CUT = "c"
    """End all collectives; a repair follows."""

    FREE = "f"
    """Do as for `CUT` if the main thread is blocked where no signal reaches it. Ask repeatedly: code that has just
    been interrupted is left alone for a moment."""

    RESCUE = "s"
    """Save what is in memory to a file: this process is about to be given up."""

    COUNT = "n"
    """Report what was sent to the devices of several processes."""

    COMPARE = "d"
    """Answer a `CompareBefore` of `nbdist.contract.questions`."""

    STACK = "t"
    """Answer a `ReadStacks`."""

    STOP = "p"
    """Answer a `StopAtStep`."""

    LINE = "l"
    """Answer a `GiveLine`."""

    ABANDON = "a"
    """End the wait for a proof."""
