"""State of a job of Slurm, from the words of `srun` and from the queue."""

from __future__ import annotations

import contextlib
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from nbdist.errors import LaunchError
from nbdist.launch.schedulers.slurm.ask import ask
from nbdist.machine.log_tail import LOG_LINES
from nbdist.ranges import numbers

LOOK_SECONDS = 1.0
"""Seconds between two queries of the queue while a job waits."""

SETTLE_SECONDS = 1.0
"""Seconds after a job's end in which the queue may still call it running or completing."""

QUEUED = re.compile(r"srun: job (\d+) queued and waiting for resources")
ALLOCATED = re.compile(r"srun: job \d+ has been allocated resources")
STEP_WAITS = re.compile(r"srun: Job (\d+) step creation temporarily disabled, retrying \((.*)\)")
STEP_CREATED = re.compile(r"srun: Step created for job")
CANCELLED = re.compile(
    r"\*\*\* (?:STEP|JOB) (\d+)\S* ON \S+ CANCELLED AT \S+?( DUE TO [A-Z ]+?)? \*\*\*"
)
TASKS = re.compile(r"srun: error: (\S+): tasks? (\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*): (.+)")


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job in the queue; `reason` is empty if Slurm has none."""

    job: str
    state: str
    reason: str

    def __str__(self) -> str:
        return f"job {self.job} {self.state}" + (f" ({self.reason})" if self.reason else "")


class SlurmWatch:
    """Watch of a job of Slurm.

    Args:
      name: The name of the job, which no other has.
      allocation: The number of the allocation of which it is a step, None for a job of its own.
      python: The interpreter on the nodes.
      asks: Asks Slurm; tests give another.
    """

    title = "Slurm"
    command = "srun"

    def __init__(
        self,
        name: str,
        *,
        allocation: str | None,
        python: str,
        asks: Callable[..., str] = ask,
    ) -> None:
        self.python = python
        self._name = name
        self._allocation = allocation
        self._ask = asks
        self._looked = float("-inf")
        self._state: JobState | None = None
        self._asked_for_end = False
        self._ending: str | None = None

    def waiting(self, lines: Sequence[str]) -> str | None:
        """Return the job's state in the queue, which is asked once a second."""
        text = "\n".join(lines)
        step = list(STEP_WAITS.finditer(text))
        if step and not STEP_CREATED.search(text):
            return f"step of job {step[-1][1]} waits ({step[-1][2]})"
        queued = QUEUED.search(text)
        if queued is None or ALLOCATED.search(text):
            return None
        now = time.monotonic()
        if now - self._looked >= LOOK_SECONDS:
            self._state = self.look() or self._state
            self._looked = time.monotonic()
        return str(self._state or JobState(queued[1], "PENDING", ""))

    def look(self) -> JobState | None:
        """Return the job's present state in the queue, also shortly after its end; None if the queue has none."""
        which = f"--jobs={self._allocation}" if self._allocation else f"--name={self._name}"
        with contextlib.suppress(LaunchError):
            found = self._ask("squeue", "--noheader", "--states=all", which, "--format=%i|%T|%r")
            rows = [line.strip().split("|", 2) for line in found.splitlines()]
            # A session that was started afresh had another job of this name before.
            job, state, reason = max(rows, key=lambda row: _order(row[0]), default=("", "", ""))
            return JobState(job, state, "" if reason == "None" else reason) if job else None
        return None

    def ending(self, lines: Sequence[str]) -> str | None:
        """Return the job's last state, unless it is that of a job that has ended by itself."""
        if not self._asked_for_end:
            self._asked_for_end = True
            self._ending = _cancelled(lines) or self._last_state()
        return self._ending

    def _last_state(self) -> str | None:
        until = time.monotonic() + SETTLE_SECONDS
        while (found := self.look()) is not None and time.monotonic() < until:
            if found.state not in ("RUNNING", "COMPLETING"):
                break
            time.sleep(0.1)
        if found is None or found.state in ("RUNNING", "COMPLETING", "COMPLETED"):
            return None
        state = ", ".join(filter(None, (found.state, found.reason)))
        return f"Slurm's job {found.job} ({state})"

    def reasons(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the last lines."""
        return tuple(lines[-LOG_LINES:])

    def ended_tasks(self, lines: Sequence[str]) -> dict[int, str]:
        """Return the tasks whose end srun has reported."""
        text = "\n".join(lines)
        if CANCELLED.search(text):
            return {}  # all tasks have ended, and `ending` says why
        return {
            task: f"{said} (host {host})"
            for host, tasks, said in TASKS.findall(text)
            for task in numbers(tasks)
        }

    def cancel(self) -> None:
        """Cancel the job by its name; if it is a step, its allocation is left to its owner."""
        with contextlib.suppress(LaunchError):
            self._ask("scancel", f"--name={self._name}")


def _cancelled(lines: Sequence[str]) -> str | None:
    """Return the end of the job as the nodes report it, which they do before the queue knows."""
    said = CANCELLED.search("\n".join(lines))
    if said is None:
        return None
    return f"Slurm's job {said[1]} (CANCELLED{said[2] or ''})"


def _order(job: str) -> list[int]:
    """Return a key that is larger for a later job: of `12`, or of `12_3` in an array of jobs."""
    return [int(number) for number in re.findall(r"\d+", job)]
