"""Interface of a session to its processes, whether nbdist or somebody else has started them."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Protocol

from nbdist.contract.asides import Aside
from nbdist.contract.orders import NewProcess
from nbdist.contract.questions import Question
from nbdist.launch.agents.agent_events import AgentEvents
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.files.sync import Files
from nbdist.launch.model.exits import ProcessExit
from nbdist.launch.model.host_info import HostInfo


class Agents(Protocol):
    """Agents of ours (`AgentPool`), or the engines of a cluster that somebody else has started (`ForeignEngines`).

    `events` publishes all happenings to its listeners. `silent` is since when (Unix seconds) silent hosts send
    nothing, by name. `faults` are sentences about messages that could not be handled.
    """

    reaches_past_main_threads: bool
    """Whether processes can be asked for something while they run a cell."""

    others: dict[str, AgentHandle]
    """The agents on other machines, by host name."""

    files: Files | None
    events: AgentEvents
    silent: dict[str, float]
    faults: list[str]

    @property
    def all(self) -> tuple[AgentHandle, ...]:
        """The agents of ours, that of this machine first; empty if somebody else has started the engines."""

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """How ended processes ended, or why processes can no longer be reached."""

    @property
    def controller_end(self) -> ProcessExit | None:
        """The end of the controller, with which all engines are lost; None if it runs, or its end is not known."""

    def of(self, process_id: int) -> AgentHandle:
        """Return the agent of one process.

        Raises:
          SessionError: Somebody else has started the process.
        """

    def place(self, process_id: int) -> HostInfo | None:
        """Return the facts about a process's host; None if it is this machine, or nothing is known."""

    def start(self, processes: Sequence[NewProcess]) -> None:
        """Order the agents to start engines.

        Raises:
          SessionError: Somebody else has started the other engines.
        """

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop the ends of processes that are about to be started again, or that another kernel has started."""

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Send a signal to engines."""

    def ask(
        self,
        what: Aside,
        process_ids: Sequence[int],
        question: Question | None = None,
    ) -> None:
        """Send processes one request that bypasses their main threads, if that is possible; return at once."""

    def leave(self) -> None:
        """Let all processes go on without this kernel."""

    def stop(self) -> None:
        """Stop everything that this kernel may stop."""
