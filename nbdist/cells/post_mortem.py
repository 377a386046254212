"""Whether there is something to look at in a post-mortem."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nbdist.errors import SessionError
from nbdist.quantities import processes_text
from nbdist.spelling import command


def refuse_busy(busy: Collection[int]) -> None:
    """Lets pass where no process is in the middle of a cell.

    Raises:
      SessionError: One is.
    """
    if busy:
        verb = "is" if len(busy) == 1 else "are"
        raise SessionError(
            f"{processes_text(busy)} {verb} in the middle of a cell, and not at a breakpoint. "
            f"{command('stacks_of', min(busy))} shows where, {command('interrupt')} ends it."
        )


def refuse_sound(failures: Mapping[int, str | None]) -> None:
    """Lets pass where a cell has failed on each process.

    Args:
      failures: What the last cell that has failed on a process raised, by process id; None where none has.

    Raises:
      SessionError: None has on one of them.
    """
    sound = [p for p, error in failures.items() if error is None]
    if sound:
        raise SessionError(
            f"No cell has failed on {processes_text(sound)}, so there is no error to inspect. breakpoint() in a "
            f"{command('cell')} stops a process where you want."
        )
