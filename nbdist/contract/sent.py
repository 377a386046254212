"""Counts of programs that a process sent to devices of other processes; used to compare the processes."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Programs sent since the processes were last in step, and in total.

    A proof passes on one process a moment before another, so that their counts may begin at different proofs: only
    `generation` and `serial` are the same on all processes that are in step. Only answers that bypass the main
    thread set `calling`, `raising` and `progress`.

    Attributes:
      programs: How many ran on all devices of the session.
      names: A checksum over their names in order.
      kinds: The same over the collectives of those that ran for the first time.
      parts: How many ran on devices of several processes, but not on all.
      generation: The number of the back end.
      serial: The serial of the last program that was sent to that back end.
      counted: False if the programs could not be counted.
      unsettled: Whether a cell has failed here since the processes were last in step.
      proven: The number of the last proof that has passed here.
      calling: Whether the main thread waits in a call that is counted when it returns.
      raising: The exception that is raised there, while `finally` or `except` runs.
      progress: Stays the same while nothing is computed or moved.
    """

    programs: int
    names: int
    kinds: int
    parts: int
    generation: int
    serial: int
    counted: bool
    unsettled: bool
    proven: int | None
    calling: bool = False
    raising: str | None = None
    progress: tuple[int, int] = (0, 0)

    @property
    def place(self) -> tuple[int, int]:
        """Which program was sent last: the back end's number, and how many programs were sent to that back end."""
        return self.generation, self.serial
