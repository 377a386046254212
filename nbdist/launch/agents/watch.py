"""What a scheduler or `mpirun` says of the job that holds the processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class Watch(Protocol):
    """Reads what the command of a job wrote to its standard error, and asks the scheduler for the rest.

    `title` is the scheduler's name, as shown, `command` that of its command; `python` the interpreter it starts on
    the hosts.
    """

    title: str
    command: str
    python: str

    def waiting(self, lines: Sequence[str]) -> str | None:
        """Why the job has not begun, such as `job 12 PENDING (Resources)`; None when it has, or was not begun."""

    def ending(self, lines: Sequence[str]) -> str | None:
        """Who has ended the job, such as `Slurm's job 12 (TIMEOUT, TimeLimit)`; None where it was its own end."""

    def reasons(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Those of the words that say why a job has ended."""

    def ended_tasks(self, lines: Sequence[str]) -> dict[int, str]:
        """How tasks ended while others go on, by task number, in the command's words."""

    def cancel(self) -> None:
        """Ends the job without its command, which had to be killed."""
