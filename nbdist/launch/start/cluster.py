"""Running engines: their handles and their ids."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from nbdist.contract.orders import NewProcess
from nbdist.engine.cell.running import ONE_HOST
from nbdist.errors import SessionError
from nbdist.launch.doctor.finding import Finding
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import ProcessExit
from nbdist.launch.model.hosts import HostInfo
from nbdist.launch.model.plan import Plan, PlannedProcess
from nbdist.launch.model.rendezvous import Rendezvous
from nbdist.launch.start.agents import AgentPool, Agents
from nbdist.launch.start.spawn import planned, to_the_end
from nbdist.machine import folder as folders


@dataclass
class Cluster:
    """Started and connected engines.

    `engines` maps process ids to ipyparallel's engine ids, which follow the order of registration and mean nothing
    else; `idents` maps them to the names by which their messages are routed. `connected` is how many of the last
    started engines have registered; `info` are the reports of other hosts, by name; `warnings` the findings before
    the start. `client_file` holds ipyparallel's connection info for clients, `turn_file` is the lock file of
    kernels that share the engines; empty: one in the folder.
    """

    plan: Plan
    folder: str
    agents: Agents
    cluster: Any
    rendezvous: Rendezvous
    client: Any = None
    engines: dict[int, int] = field(default_factory=dict)
    idents: dict[int, bytes] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)
    connected: int = 0
    info: Mapping[str, HostInfo] = field(default_factory=dict)
    warnings: Sequence[Finding] = ()
    client_file: str = ""
    turn_file: str = ""

    @property
    def own_agents(self) -> AgentPool:
        """The agents that this kernel, or one before it, has started.

        Raises:
          SessionError: Somebody else has started the engines.
        """
        if not isinstance(self.agents, AgentPool):
            raise SessionError(
                "The engines of this session were not started by nbdist: this cannot be done from here."
            )
        return self.agents

    def planned(self, processes: Sequence[PlannedProcess]) -> list[NewProcess]:
        """Return what their agents need in order to start these processes."""
        framework = framework_named(self.plan.framework)
        one_host = {ONE_HOST: "1"} if len(set(self.plan.hosts.values())) == 1 else {}
        return planned(
            processes,
            lambda process: {
                **framework.environment(self.plan, process, self.rendezvous),
                **one_host,
            },
        )

    def forget(self, process_ids: Collection[int]) -> None:
        """Drop all facts about processes that are about to be started again."""
        for process_id in process_ids:
            for known in (self.engines, self.idents, self.pids):
                known.pop(process_id, None)
        self.agents.forget(process_ids)

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Send a signal to processes."""
        self.agents.signal(number, process_ids)

    @property
    def connection(self) -> dict[str, Any]:
        """ipyparallel's connection info for clients."""
        return json.loads(Path(self.client_file).read_text())  # type: ignore[no-any-return]

    @property
    def exits(self) -> dict[int, ProcessExit]:
        """How ended processes ended, or why processes can no longer be reached."""
        return self.agents.exits

    def leave(self) -> None:
        """Let all processes go on without this kernel; remove nothing."""
        if self.client is not None:
            self.client.close()
        self.agents.leave()

    def stop(self) -> None:
        """Stop everything that was started here, and remove the session's folder.

        Raises:
          KeyboardInterrupt: The user's; everything is stopped all the same.
        """
        to_the_end(self._stop)

    def _stop(self) -> None:
        if self.client is not None:
            self.client.close()
        self.agents.stop()
        folders.remove(self.folder)
