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
    """Say digests of what must be equal before the cell in the file `QUESTION`, when the main thread is free."""

    STACK = "t"
    """Say what all threads are in the middle of."""

    STOP = "p"
    """Leave the cell of this run before the same step as all others, and say how many steps have begun."""

    LINE = "l"
    """Take a line for the debugger that waits for one."""

    ABANDON = "a"
    """End the wait for a proof."""


WITH_QUESTIONS = frozenset({Aside.COMPARE, Aside.STACK, Aside.STOP, Aside.LINE})
"""Those that are answered to a kernel, under the number of its question."""

QUESTION = "question"
"""A file of the session's folder on a host: what goes with a letter, as JSON."""
