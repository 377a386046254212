"""What a session needs of whoever has started its processes."""

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

    `events` has whatever happens, for those who subscribe. `silent` says since when (Unix seconds) hosts say
    nothing, by name. `faults` are sentences about messages that could not be handled.
    """

    reaches_past_main_threads: bool
    """Whether processes can be asked for something while they run a cell."""

    others: dict[str, AgentHandle]
    """Those on other machines, by host name."""

    files: Files | None
    events: AgentEvents
    silent: dict[str, float]
    faults: list[str]

    @property
    def all(self) -> tuple[AgentHandle, ...]:
        """Those of ours, that of this machine first; none where somebody else has started the engines."""

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """How processes ended that have, or why they can no longer be reached."""

    @property
    def controller_end(self) -> ProcessExit | None:
        """The end of the controller, with which all engines are lost; None where it is not known."""

    def of(self, process_id: int) -> AgentHandle:
        """The agent of one process.

        Raises:
          SessionError: Somebody else has started it.
        """

    def place(self, process_id: int) -> HostInfo | None:
        """What is known of a process's host; None where it is this machine, or nothing is."""

    def start(self, processes: Sequence[NewProcess]) -> None:
        """Asks for engines.

        Raises:
          SessionError: Somebody else has started the others.
        """

    def forget(self, process_ids: Collection[int]) -> None:
        """Drops the ends of processes that are about to be started again, or that another kernel has."""

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Sends a signal to engines."""

    def ask(
        self,
        what: Aside,
        process_ids: Sequence[int],
        question: Question | None = None,
    ) -> None:
        """Asks processes for one thing past their main threads, where that is possible; returns at once."""

    def leave(self) -> None:
        """Lets all go on without this kernel."""

    def stop(self) -> None:
        """Stops what this kernel may stop."""
