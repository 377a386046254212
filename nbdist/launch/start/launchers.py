"""ipyparallel's launchers for preloaded agents that fork, on this machine and on others.

They replace ipyparallel's own in an `ipyparallel.Cluster`. Both hold the same `AgentPool`, since the controller is
a child of an agent as well.
"""

from __future__ import annotations

import asyncio

from ipyparallel.cluster.launcher import ControllerLauncher, EngineLauncher
from traitlets import Instance, List

from nbdist.launch.start.agent_pool import AgentPool


class Controller(ControllerLauncher):
    """Launcher of the controller, a fork of this machine's agent."""

    agents: AgentPool = Instance(AgentPool)

    def find_args(self) -> list[str]:
        """Return the words for ipyparallel's log."""
        return ["nbdist.agent"]

    async def start(self) -> None:
        """Report the start: the agent starts the controller by itself, first of all."""
        self.notify_start({"pid": "child of this machine's agent"})

    def poll(self) -> int | None:
        """Return the exit status, or None while it runs."""
        return self.agents.home.poll()

    def signal(self, sig: int) -> None:
        """Do nothing: the controller is stopped with its agent, and never signalled alone."""

    async def join(self, timeout: float | None = None) -> None:
        """Stop the agents, and return when all have ended."""
        await asyncio.to_thread(self.agents.stop)

    async def stop(self) -> None:
        """Stop the agents and with them all engines."""
        await asyncio.to_thread(self.agents.stop)
        self.notify_stop({"exit_code": 0})


class Engines(EngineLauncher):
    """Launcher of all engines, each forked by the agent of its host."""

    agents: AgentPool = Instance(AgentPool)
    processes = List()

    def find_args(self) -> list[str]:
        """Return the words for ipyparallel's log."""
        return ["nbdist.agent"]

    async def start(self, n: int) -> None:
        """Order the agents to start the planned processes; `n` is their number."""
        self.n = n
        self.agents.start(self.processes)
        self.notify_start({"n": n})

    def signal(self, sig: int) -> None:
        """Signal all engines."""
        self.agents.signal(sig, [process["process_id"] for process in self.processes])

    async def join(self, timeout: float | None = None) -> None:
        """Do nothing: engines end with their agents."""

    async def stop(self) -> None:
        """Stop the engines together with their agents."""
        await asyncio.to_thread(self.agents.stop)
        self.notify_stop({"exit_code": 0})
