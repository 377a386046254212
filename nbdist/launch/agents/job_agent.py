"""All agents of a job as one: `srun` or `mpirun` leads to each task, and reports the fate of the job."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from nbdist.contract.events import Collects, Exited, Received, Terminated
from nbdist.launch.agents import AgentSpec, Channel, Watch
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.model.happenings import Happening, ProcessLost
from nbdist.launch.model.hosts import SILENT_SECONDS
from nbdist.machine.processes import tail

JOB_LINES = 1000
"""How many lines of the standard error of a job's command are read; each of its tasks may write some."""


class JobAgent(AgentHandle):
    """The agents of all tasks of a job, through one stream.

    Attributes:
      public_keys: Public keys of tasks, to which the connection file may go; see `nbdist.agent.kernel_link`.
    """

    stop_seconds = 6.0
    """Seconds for the job's command: it gives tasks 2 s to end by themselves, and then cleans up."""

    def __init__(
        self,
        reach: AgentSpec,
        channel: Channel,
        *,
        log: Path,
        on_event: Callable[[Happening], None],
    ) -> None:
        super().__init__(reach, channel, log=log, on_event=on_event)
        self._received_at: dict[int, float] = {}
        self._terminated: set[int] = set()
        self._lost_one = False
        self.public_keys: set[str] = set()
        self._cancelled = False

    @property
    def watch(self) -> Watch:
        """The scheduler's watch on the job."""
        assert self.reach.watch is not None
        return self.reach.watch

    @property
    def waiting(self) -> str | None:
        """Why the job has not begun; None if it has."""
        return None if self.facts else self.watch.waiting(self.job_words())

    def job_words(self) -> tuple[str, ...]:
        """Return the last `JOB_LINES` lines of the standard error of the job's command."""
        return tail(self.log, lines=JOB_LINES)

    def hosts_received_at(self) -> dict[str, float]:
        """Return when each host of the job last sent something (monotonic)."""
        found: dict[str, float] = {}
        for task, received_at in list(self._received_at.items()):
            host = self.facts[task].host
            found[host] = max(found.get(host, received_at), received_at)
        return found

    def note_lost_tasks(self, silence_s: float) -> None:
        """Note tasks that have ended, or been silent for `silence_s`, while others go on."""
        if self.ended_at is not None:
            return
        gone = {
            task: f"host {self.facts[task].host} does not answer"
            for task, received_at in list(self._received_at.items())
            if self._pauses.ran_since(received_at) > silence_s
        }
        self._lost_one |= bool(gone)
        gone |= self.watch.ended_tasks(self.job_words())
        for task, because in gone.items():
            if task in self.facts and task not in self.exits:
                self._received_at.pop(task, None)
                self.exits[task] = self._end(because, None)
                self._on_event(ProcessLost(process_id=task))

    def begin_to_stop(self) -> None:
        """Order all tasks to end, also on a host that was cut off.

        The end of the orders reaches such a host late, and by then the command has killed the tasks. The scheduler
        reaches the host by its own connection, and asks the tasks to end before it kills them.
        """
        super().begin_to_stop()
        silent = any(silence_s > SILENT_SECONDS for silence_s in self.silences().values())
        if (self._lost_one or silent) and not self._cancelled:
            self._cancelled = True
            self.watch.cancel()

    def _needs_a_signal(self) -> bool:
        """Return whether the job still waits in a queue, where it reads nothing."""
        return self.waiting is not None

    def _is_out_of_reach(self) -> bool:
        return bool(self.facts) and super()._is_out_of_reach()

    def _wait_or_kill(self) -> bool:
        killed = super()._wait_or_kill()
        if killed:
            self.watch.cancel()
        return killed

    def _because(self) -> tuple[str, int | None]:
        ending = self.watch.ending(self.job_words())
        if ending is not None:
            return ending, self._channel.process.status
        if self.stopped or self.given_up:
            return super()._because()
        return self.watch.command, self._channel.process.status

    def _take(self, received: Received) -> None:
        task = received.task
        if isinstance(received.event, Collects):
            self.public_keys.add(received.event.public_key)
        if isinstance(received.event, Terminated):
            if task is not None:
                self._terminated.add(task)
        elif not isinstance(received.event, Exited) or task not in self._terminated:
            super()._take(received)
        if task is not None and task in self.facts:
            self._received_at[task] = self.received_at
