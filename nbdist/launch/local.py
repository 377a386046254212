"""ipyparallel's launchers for this machine: a preloaded parent that forks.

They take the place of ipyparallel's `LocalControllerLauncher` and `LocalEngineSetLauncher` in an
`ipyparallel.Cluster`; both hold the same `HostProcess`, since the controller is its child as well.
"""

from __future__ import annotations

import asyncio

from ipyparallel.cluster.launcher import ControllerLauncher, EngineLauncher
from traitlets import Instance, List

from nbdist.launch.hostprocess import HostProcess


class LocalController(ControllerLauncher):
    """The controller as a fork of the host's parent."""

    host: HostProcess = Instance(HostProcess)

    def find_args(self) -> list[str]:
        """For ipyparallel's log."""
        return ["nbdist.engine.host"]

    async def start(self) -> None:
        """The parent starts the controller by itself, first of all."""
        self.notify_start({"pid": "child of the host's parent"})

    def poll(self) -> int | None:
        """The exit status, or None while it runs."""
        return self.host.poll()

    def signal(self, sig: int) -> None:
        """The controller is stopped with its parent, and never signalled alone."""

    async def join(self, timeout: float | None = None) -> None:
        """Waits for the end."""
        await asyncio.to_thread(self.host.stop)

    async def stop(self) -> None:
        """Stops the parent and with it all engines."""
        await asyncio.to_thread(self.host.stop)
        self.notify_stop({"exit_code": 0})


class LocalEngines(EngineLauncher):
    """All engines of this machine, forked by the host's parent."""

    host: HostProcess = Instance(HostProcess)
    processes = List()

    def find_args(self) -> list[str]:
        """For ipyparallel's log."""
        return ["nbdist.engine.host"]

    async def start(self, n: int) -> None:
        """Asks the parent for the planned processes; `n` is how many those are."""
        self.n = n
        self.host.start(self.processes)
        self.notify_start({"n": n})

    def signal(self, sig: int) -> None:
        """Signals all engines."""
        self.host.signal(sig, [process["process_id"] for process in self.processes])

    async def join(self, timeout: float | None = None) -> None:
        """Engines end with the parent."""

    async def stop(self) -> None:
        """Stops the engines together with the parent."""
        await asyncio.to_thread(self.host.stop)
        self.notify_stop({"exit_code": 0})
