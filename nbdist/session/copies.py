"""The copies of arrays that processes keep for each other, as the kernel knows them."""

from __future__ import annotations

import time
from dataclasses import dataclass

from nbdist.quantities import bytes_text, count_text, seconds_text
from nbdist.values.copies import Copied


@dataclass(frozen=True, kw_only=True)
class Kept:
    """The copies that all processes have.

    Attributes:
      copied: The arrays and bytes copied.
      cell: The number of the cell after which they were made.
      at: The moment they show, in seconds of `time.monotonic`.
      seconds: How long making them took.
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
        """Return `copies of 12 arrays, made after cell 12, 34.0 s ago, in 0.1 s: 6 MB on each process`."""
        most, least = max(self.copied.kept.values()), min(self.copied.kept.values())
        size = bytes_text(most) if most == least else f"{bytes_text(least)} to {bytes_text(most)}"
        return (
            f"copies of {count_text(self.copied.arrays, 'array')}, made {self.age}, "
            f"in {seconds_text(self.seconds)}: {size} on each process"
        )


class Copies:
    """The copies of one session, and when the next are due.

    Attributes:
      every_s: They are made no more often than this; None: never.
      kept: The last copies that were made; None: none were.
    """

    def __init__(self, every_s: float | None = None) -> None:
        self.every_s = every_s
        self.kept: Kept | None = None
        self._next = time.monotonic() + (every_s or 0.0)

    @property
    def due(self) -> bool:
        """Return whether copies are to be made after this cell."""
        return self.every_s is not None and time.monotonic() >= self._next

    def tried(self) -> None:
        """Note that copies have been made, or could not be."""
        self._next = time.monotonic() + (self.every_s or 0.0)

    def text(self) -> str | None:
        """Return a line for a person; None where no copies are to be made."""
        if self.every_s is None:
            return None
        return "no copies were made yet" if self.kept is None else self.kept.text()
