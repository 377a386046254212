"""All tasks of a job as one: which of them are lost while others go on, and how the job is ended."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.agent import kernel_link
from nbdist.contract.orders import Assignment
from nbdist.launch.agents import AgentSpec, agent_handle
from nbdist.launch.agents.agent_handle import JobAgent
from nbdist.launch.model.happenings import Happening, ProcessLost
from nbdist.version import __version__
from tests.builders.agents import FakeChannel
from tests.builders.clock import PatientClock
from tests.waiting import wait_for


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


class FakeWatch:
    """A scheduler that says what a test has it say."""

    title = "Slurm"
    command = "srun"
    python = "python3"

    def __init__(self) -> None:
        self.ended: dict[int, str] = {}
        self.end: str | None = None
        self.cancelled = 0

    def waiting(self, lines: Sequence[str]) -> str | None:
        return "job 12 PENDING (Resources)"

    def ending(self, lines: Sequence[str]) -> str | None:
        return self.end

    def reasons(self, lines: Sequence[str]) -> tuple[str, ...]:
        return tuple(lines)

    def ended_tasks(self, lines: Sequence[str]) -> dict[int, str]:
        return self.ended

    def cancel(self) -> None:
        self.cancelled += 1


class Tasks:
    """A job of tasks that say who they are when a test has them, on a clock of its own."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.clock = PatientClock(look_s=0.1)
        monkeypatch.setattr(agent_handle, "time", self.clock)
        monkeypatch.setattr(kernel_link, "time", self.clock)
        log = folder / "job.log"
        log.touch()
        self.channel = FakeChannel("job", log, lambda channel, order: None, self.clock.sleep)
        monkeypatch.setattr(agent_handle, "Pipes", lambda *_: self.channel)
        self.watch = FakeWatch()
        self.events: list[Happening] = []
        self.job = JobAgent.begin(
            AgentSpec(name="Slurm", remote=True, watch=self.watch),
            Assignment(nbdist=__version__, cluster_id="c", preload=(), fork=True),
            log=log,
            on_event=self.events.append,
        )

    def say(self, event: str, *, task: int, **facts: Any) -> None:
        self.channel.say_as(task, event, **facts)
        wait_for(lambda: not self.channel.unread)

    def come(self, *tasks: int) -> None:
        """Tasks say who they are, two on each host."""
        for task in tasks:
            facts = {"host": f"h{task // 2 + 1}", "pid": 1, "nbdist": __version__, "folder": "/f"}
            unknown = {"address": None, "listening": None, "ports": [], "checks": None}
            self.say("host", task=task, cwd="/", **facts, **unknown)

    def alive(self, *tasks: int) -> None:
        for task in tasks:
            self.say("alive", task=task)


@pytest.fixture
def tasks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Tasks]:
    made = Tasks(tmp_path, monkeypatch)
    yield made
    made.job.stop()


def test_a_job_waits_until_its_first_task_has_come(tasks: Tasks) -> None:
    assert tasks.job.waiting == "job 12 PENDING (Resources)"
    tasks.come(0)
    assert tasks.job.waiting is None


def test_a_host_is_as_silent_as_the_one_of_its_tasks_that_spoke_last(tasks: Tasks) -> None:
    tasks.come(0, 1, 2, 3)
    tasks.clock.now += 7
    tasks.alive(0)
    assert tasks.job.silences() == {"h1": 0.0, "h2": 7.0}


def test_the_tasks_of_a_host_that_is_cut_off_are_lost_and_the_others_go_on(tasks: Tasks) -> None:
    tasks.come(0, 1, 2, 3)
    tasks.clock.now += 7
    tasks.alive(0, 1)
    tasks.job.note_lost_tasks(10.0)
    assert tasks.job.exits == {}
    tasks.clock.now += 7
    tasks.job.note_lost_tasks(10.0)
    assert {task: str(end) for task, end in tasks.job.exits.items()} == dict.fromkeys(
        (2, 3), "out of reach: host h2 does not answer"
    )
    lost = [event.process_id for event in tasks.events if isinstance(event, ProcessLost)]
    assert lost == [2, 3]
    tasks.alive(0, 1)
    tasks.job.stop()
    assert tasks.watch.cancelled == 1  # the scheduler reaches what was cut off


def test_a_task_that_the_scheduler_says_has_ended_is_lost_in_its_words(tasks: Tasks) -> None:
    tasks.come(0, 1)
    tasks.watch.ended = {1: "task 1 was killed by Slurm", 9: "no task of this session"}
    for _ in range(2):
        tasks.job.note_lost_tasks(10.0)
    assert sum(isinstance(event, ProcessLost) for event in tasks.events) == 1
    assert {t: end.because_of for t, end in tasks.job.exits.items()} == {
        1: "task 1 was killed by Slurm"
    }


@pytest.mark.parametrize(
    ("end", "said"),
    [
        (None, "out of reach: srun ended with exit code 1"),
        (
            "Slurm's job 12 (TIMEOUT, TimeLimit)",
            "out of reach: Slurm's job 12 (TIMEOUT, TimeLimit) ended with exit code 1",
        ),
    ],
)
def test_the_end_of_a_job_is_that_of_its_command_unless_the_scheduler_knows_more(
    tasks: Tasks, end: str | None, said: str
) -> None:
    tasks.watch.end = end
    tasks.channel.exit(1, "srun: error")
    wait_for(lambda: tasks.job.ended_at)
    assert str(tasks.job.end_of_all()) == said


def test_a_process_that_ended_with_its_task_is_not_told_as_an_end_of_its_own(
    tasks: Tasks,
) -> None:
    tasks.come(0, 1)
    ended = {"pid": 1, "code": -15, "oom": False, "last_lines": []}
    tasks.say("terminated", task=0)
    tasks.say("exited", task=0, process_id=0, **ended)
    tasks.say("exited", task=1, process_id=1, **ended)
    assert list(tasks.job.exits) == [1]


def test_a_job_that_does_not_end_by_itself_is_killed_and_cancelled(tasks: Tasks) -> None:
    tasks.channel.hangs = True
    tasks.job.stop()
    assert (tasks.channel.status, tasks.watch.cancelled) == (-9, 1)
