"""How long the tasks of a job are waited for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.errors import HostError
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.start import job

LIMIT_SECONDS = 100


class Queued(JobAgent):
    """A job that waits for so many looks, and whose two tasks come so many looks later; never, if None."""

    def __init__(self, waits: int, comes: int | None) -> None:
        self._looks, self._waits, self._comes = 0, waits, comes
        self.reach: Any = SimpleNamespace(name="Slurm")

    @property
    def waiting(self) -> str | None:
        self._looks += 1
        begun = self._looks - self._waits
        self.facts: Any = dict.fromkeys(
            range(2 if self._comes is not None and begun > self._comes else 0)
        )
        return f"job 12 PENDING (Resources), look {self._looks}" if begun <= 0 else None

    def last_words(self) -> tuple[str, ...]:
        return ("srun: none",)


def wait(monkeypatch: pytest.MonkeyPatch, waits: int, comes: int | None) -> list[tuple[str, int]]:
    """What is reported, on a clock on which a second passes from look to look."""
    clock = SimpleNamespace(seconds=0)

    def sleep(_: float) -> None:
        clock.seconds += 1

    monkeypatch.setattr(job, "time", SimpleNamespace(monotonic=lambda: clock.seconds, sleep=sleep))
    parent, told = Queued(waits, comes), []
    spawned: Any = SimpleNamespace(
        parents=SimpleNamespace(others={"Slurm": parent}, home=SimpleNamespace(facts={None: None})),
        plan=SimpleNamespace(processes=(0, 1), start_timeout_s=LIMIT_SECONDS),
    )
    job.wait_for_tasks(
        spawned, lambda *_: None, progress=lambda what, done, _: told.append((what, done))
    )
    return told


def test_the_time_in_a_queue_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    told = wait(monkeypatch, waits=10 * LIMIT_SECONDS, comes=LIMIT_SECONDS - 2)
    assert told[0] == ("job 12 PENDING (Resources), look 1", 0)
    assert len(told) == 10 * LIMIT_SECONDS + 2
    assert told[-2:] == [("launched", 0), ("launched", 2)]


@pytest.mark.parametrize("waits", [0, 10 * LIMIT_SECONDS])
def test_tasks_that_do_not_come_after_it_are_named(
    monkeypatch: pytest.MonkeyPatch, waits: int
) -> None:
    message = (
        r"^2 of 2 processes \(0, 1\) did not begin within 100 s after Slurm had started them\."
    )
    with pytest.raises(HostError, match=message):
        wait(monkeypatch, waits, comes=None)
