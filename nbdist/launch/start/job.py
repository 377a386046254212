"""The tasks of a job, from its queue to the first event of each."""

from __future__ import annotations

import re
import time
from collections.abc import Callable

from nbdist.errors import HostError
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.model.no_nbdist import install_nbdist, lacks_nbdist, other_python
from nbdist.launch.model.progress import StartProgress
from nbdist.launch.start.spawn import Spawned
from nbdist.quantities import count_text
from nbdist.spelling import option

POLL_SECONDS = 0.03
SHOW_SECONDS = 1.0
"""Seconds between two displays of a waiting job, which may wait for hours: they show that something is alive."""


def wait_for_tasks(
    spawned: Spawned, check: Callable[[str, AgentHandle], None], *, progress: StartProgress
) -> None:
    """Wait until every task of the job has sent its first event; without limit while the job waits in a queue.

    Args:
      spawned: A start whose plan is for a job.
      check: Raises when the agent can no longer take part.
      progress: Called with the state of the job, and how many tasks have come.

    Raises:
      HostError: The job has ended, or not all tasks began in time after it had begun.
    """
    ((name, agent),) = spawned.agents.others.items()
    assert isinstance(agent, JobAgent)
    total, limit_s = len(spawned.plan.processes), spawned.plan.start_timeout_s
    begun, shown_at, launched = time.monotonic(), float("-inf"), -1
    while True:
        check(name, agent)
        waiting = agent.waiting
        if waiting is not None:
            begun = time.monotonic()
            if begun - shown_at >= SHOW_SECONDS:
                progress(waiting, 0, total)
                shown_at = begun
        elif len(agent.facts) != launched:
            launched = len(agent.facts)
            progress("launched", launched, total)
        if launched == total:
            return
        if time.monotonic() - begun > limit_s:
            raise HostError(_missing(agent, total, limit_s), host=name)
        time.sleep(POLL_SECONDS)


def _missing(agent: AgentHandle, total: int, limit_s: float) -> str:
    missing = sorted(set(range(total)) - {task for task in agent.facts if task is not None})
    listed = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
    words = "\n".join(f"  {line}" for line in agent.last_words())
    return (
        f"{len(missing)} of {count_text(total, 'process')} ({listed}) did not begin within {limit_s:g} s after "
        f"{agent.reach.name} had started them. Give them longer with {option('start_timeout_s')}.\n{words}"
    ).rstrip()


def job_ended(agent: JobAgent) -> str:
    """Return why a start failed whose job has ended, and what to type if that is known."""
    watch = agent.watch
    lines = watch.reasons(agent.job_words())
    words = "\n".join(f"  {line}" for line in lines)
    python = watch.python
    if lacks_nbdist(lines):
        text = install_nbdist(
            f"{watch.title}: {python} on the hosts", python, host=None, otherwise=other_python()
        )
        return f"{text}\n{words}"
    if python in words and _NO_FILE.search(words):
        return (
            f"{watch.title}: the hosts have no Python at {python}. Name their interpreter with "
            f"{option('remote_python')}.\n{words}"
        )
    code = agent.poll()
    ending = f" (exit code {code})" if code is not None else ""
    hint = next((text for sign, text in _hints() if sign in words), "")
    what = watch.ending(agent.job_words()) or watch.command
    return f"{what} ended before all processes had started{ending}.{hint}\n{words}".rstrip()


_NO_FILE = re.compile(
    r"execve.*(No such file|Permission denied)|could not access\s+or execute an executable"
)


def _hints() -> tuple[tuple[str, str], ...]:
    """Return words of srun and mpirun, with what to type."""
    return (
        (
            "Unable to confirm allocation",
            " The kernel's SLURM_JOB_ID is of an allocation that has ended: start the kernel outside of it.",
        ),
        (
            "ssh: ",
            f" Try the same with ssh by hand, or name your configuration with {option('ssh_config')}.",
        ),
    )
