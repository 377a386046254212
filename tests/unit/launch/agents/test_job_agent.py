"""The end of a job of which a host was cut off."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.launch.agents.job_agent import JobAgent


class Job(JobAgent):
    """A job without a command; its hosts have been silent for so many seconds."""

    def __init__(self, *silences: float, lost: bool = False) -> None:
        self.cancelled = 0
        self._silences = silences
        self._lost_one = lost
        self._cancelled = False
        self._lock: Any = threading.Lock()
        self.ended = 0
        self._channel: Any = SimpleNamespace(end=self.end)
        self.reach: Any = SimpleNamespace(watch=SimpleNamespace(cancel=self.cancel))

    def end(self) -> None:
        self.ended += 1

    def cancel(self) -> None:
        self.cancelled += 1

    def silences(self) -> dict[str, float]:
        return {f"h{i}": silence_s for i, silence_s in enumerate(self._silences)}


@pytest.mark.parametrize(
    ("job", "cancelled"),
    [
        (Job(0.1, 1.0), 0),
        (Job(), 0),
        (Job(0.1, 10.0), 1),
        (Job(0.1, lost=True), 1),
    ],
)
def test_the_scheduler_ends_a_job_with_a_host_that_may_not_see_the_end(
    job: Job, cancelled: int
) -> None:
    for _ in range(2):
        job.begin_to_stop()
    assert (job.ended, job.cancelled) == (2, cancelled)
