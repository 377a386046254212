"""Reports of a scheduler or `mpirun` about the job that holds the processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Watch(Protocol):
    """Reader of the standard error of a job's command, which asks the scheduler for the rest.

    `title` is the scheduler's name, as shown, `command` the name of its command; `python` is the interpreter it
    starts on the hosts.
    """

    title: str
    command: str
    python: str

    def waiting(self, lines: Sequence[str]) -> str | None:
        """Return why the job has not begun, such as `job 12 PENDING (Resources)`; None if it does not wait."""

    def ending(self, lines: Sequence[str]) -> str | None:
        """Return who ended the job, such as `Slurm's job 12 (TIMEOUT, TimeLimit)`; None if it ended by itself."""

    def reasons(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the lines that say why a job has ended."""

    def ended_tasks(self, lines: Sequence[str]) -> dict[int, str]:
        """Return how tasks ended while others go on, by task number, in the command's words."""

    def cancel(self) -> None:
        """End the job without its command, which had to be killed."""
