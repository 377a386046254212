"""What is known of the copies that processes keep for each other."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nbdist.quantities import bytes_text, count_text, seconds_text
from nbdist.values.copies import Copied


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The copies that all processes have.

    Attributes:
      copied: What was copied.
      cell: The number of the cell after which.
      at: Of when what was copied is, in seconds of `time.monotonic`.
      seconds: How long it took.
    """

    copied: Copied
    cell: int
    at: float
    seconds: float

    @property
    def age(self) -> str:
        """`after cell 12, 34.0 s ago`."""
        return f"after cell {self.cell}, {seconds_text(time.monotonic() - self.at)} ago"

    def text(self) -> str:
        """`copies of 12 arrays, made after cell 12, 34.0 s ago, in 0.1 s: 6 MB on each process`."""
        most, least = max(self.copied.kept.values()), min(self.copied.kept.values())
        size = bytes_text(most) if most == least else f"{bytes_text(least)} to {bytes_text(most)}"
        return (
            f"copies of {count_text(self.copied.arrays, 'array')}, made {self.age}, "
            f"in {seconds_text(self.seconds)}: {size} on each process"
        )


class Copies:
    """Those of one session, and when the next are due.

    Attributes:
      every_s: Not more often than that are they made; None: never.
      kept: The last that were made; None: none were.
    """

    def __init__(self, every_s: float | None = None) -> None:
        self.every_s = every_s
        self.kept: Kept | None = None
        self._next = time.monotonic() + (every_s or 0.0)

    @property
    def due(self) -> bool:
        """Whether they are to be made after this cell."""
        return self.every_s is not None and time.monotonic() >= self._next

    def tried(self) -> None:
        """They have been made, or could not be."""
        self._next = time.monotonic() + (self.every_s or 0.0)

    def text(self) -> str | None:
        """A line for a person; None where none are to be made."""
        if self.every_s is None:
            return None
        return "no copies were made yet" if self.kept is None else self.kept.text()
