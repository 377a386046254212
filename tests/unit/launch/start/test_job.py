"""How long the tasks of a job are waited for, and what is said of a job that has ended before they came."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.errors import HostError
from nbdist.launch.agents.agent_handle import JobAgent
from nbdist.launch.start import hosts
from nbdist.version import __version__

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

    monkeypatch.setattr(
        hosts, "time", SimpleNamespace(monotonic=lambda: clock.seconds, sleep=sleep)
    )
    parent, lines_said = Queued(waits, comes), []
    spawned: Any = SimpleNamespace(
        agents=SimpleNamespace(others={"Slurm": parent}),
        plan=SimpleNamespace(processes=(0, 1), start_timeout_s=LIMIT_SECONDS),
    )
    hosts.wait_for_tasks(
        spawned, lambda *_: None, progress=lambda what, done, _: lines_said.append((what, done))
    )
    return lines_said


def test_the_time_in_a_queue_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    lines_said = wait(monkeypatch, waits=10 * LIMIT_SECONDS, comes=LIMIT_SECONDS - 2)
    assert lines_said[0] == ("job 12 PENDING (Resources), look 1", 0)
    assert len(lines_said) == 10 * LIMIT_SECONDS + 2
    assert lines_said[-2:] == [("launched", 0), ("launched", 2)]


@pytest.mark.parametrize("waits", [0, 10 * LIMIT_SECONDS])
def test_tasks_that_do_not_come_after_it_are_named(
    monkeypatch: pytest.MonkeyPatch, waits: int
) -> None:
    message = (
        r"^2 of 2 processes \(0, 1\) did not begin within 100 s after Slurm had started them\."
    )
    with pytest.raises(HostError, match=message):
        wait(monkeypatch, waits, comes=None)


class Words:
    """What Slurm says of a job, with what srun wrote."""

    title = "Slurm"
    command = "srun"
    python = "/opt/python"

    def __init__(self, ending: str | None = None) -> None:
        self._ending = ending

    def reasons(self, lines: tuple[str, ...]) -> tuple[str, ...]:
        return lines

    def ending(self, lines: tuple[str, ...]) -> str | None:
        return self._ending


def ended(*words: str, ending: str | None = None, code: int | None = 1) -> str:
    parent: Any = SimpleNamespace(watch=Words(ending), job_words=lambda: words, poll=lambda: code)
    return hosts.job_ended(parent)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["/opt/python: No module named nbdist"],
            f"Slurm: /opt/python on the hosts has no nbdist. On the hosts run: /opt/python -m pip install "
            f"nbdist=={__version__}; or name another interpreter with --remote-python.",
        ),
        (
            ["execve(): /opt/python: No such file or directory"],
            "Slurm: the hosts have no Python at /opt/python. Name their interpreter with --remote-python.",
        ),
        (
            ["srun: error: Unable to confirm allocation for job 12"],
            "srun ended before all processes had started (exit code 1). The kernel's SLURM_JOB_ID is of an "
            "allocation that has ended: start the kernel outside of it.",
        ),
        (
            ["ssh: connect to host h2: Connection refused"],
            "srun ended before all processes had started (exit code 1). Try the same with ssh by hand, or name "
            "your configuration with --ssh-config.",
        ),
        (["srun: error: bad"], "srun ended before all processes had started (exit code 1)."),
    ],
    ids=["no nbdist", "no Python", "an allocation that has ended", "ssh", "anything else"],
)
def test_a_job_that_ended_too_early_is_explained_where_its_words_are_known(
    words: list[str], said: str
) -> None:
    assert ended(*words) == "\n".join([said, *(f"  {line}" for line in words)])


def test_what_the_scheduler_says_of_its_end_comes_first() -> None:
    text = ended(ending="Slurm's job 12 (TIMEOUT, TimeLimit)", code=None)
    assert text.startswith("Slurm's job 12 (TIMEOUT, TimeLimit) ended")
