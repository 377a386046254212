"""What a process is asked through a pipe of its own, past its main thread."""

from __future__ import annotations

from enum import StrEnum


class Aside(StrEnum):
    """One letter each: a pipe carries single bytes whole, however many come at once."""

    REPEAT = "r"
    """Say again what a kernel that has just come must know."""

    CUT = "c"
    """End all collectives; a repair follows."""

    FREE = "f"
    """Cut if the main thread is blocked where no signal reaches it. To be asked for repeatedly: code that has just
    been interrupted is left alone for a moment."""

    RESCUE = "s"
    """Save what is in memory to a file: this process is about to be given up."""

    COUNT = "n"
    """Say what was sent to the devices of several processes."""

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
