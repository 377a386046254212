"""ipyparallel's launchers for this machine: a preloaded parent that forks.

They take the place of ipyparallel's `LocalControllerLauncher` and `LocalEngineSetLauncher` in an
`ipyparallel.Cluster`; both hold the same `HostProcess`, since the controller is its child as well.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ipyparallel.cluster.launcher import ControllerLauncher, EngineLauncher
from traitlets import Instance, List

from nbdist.launch.hostprocess import HostProcess
from nbdist.launch.plan import PlannedProcess

CONTROLLER_ARGUMENTS = (
    "--nodb",
    "--ip=127.0.0.1",
    # Registration waits for a heartbeat: at ipyparallel's 3 s engines come up after 7 s or 10 s.
    "--HeartMonitor.period=250",
    # A starved machine must not lose its engines: 60 s, while a death is told by the nanny at once.
    "--HeartMonitor.max_heartmonitor_misses=240",
    # Relays in threads of one process instead of a process each; broadcast trees are for many hosts.
    "--IPController.use_threads=True",
    "--IPController.broadcast_scheduler_depth=0",
    "--log-level=WARN",
)


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


def clean_environment(environment: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The environment engines get: the kernel's, without what would make them behave otherwise.

    `PYTEST_*` switches off ipykernel's capture of file descriptors; the variables of Jupyter's own
    kernel start belong to the kernel alone.
    """
    left_out = ("PYTEST_", "JPY_", "IPP_", "NBDIST_")
    kept = {k: v for k, v in environment.items() if not k.startswith(left_out)}
    return {**kept, **added}


def controller_arguments(folder: str, cluster_id: str) -> list[str]:
    """The command line of the controller of a local session."""
    return [f"--profile-dir={folder}", f"--cluster-id={cluster_id}", *CONTROLLER_ARGUMENTS]


def planned(
    processes: Sequence[PlannedProcess],
    folder: str,
    environment: Callable[[PlannedProcess], Mapping[str, str]],
) -> list[dict[str, Any]]:
    """What the parent needs to know of each planned process, the framework's `environment` included."""
    return [
        {
            "process_id": process.process_id,
            "environment": {
                **environment(process),
                "NBDIST_PROCESS_ID": str(process.process_id),
                "NBDIST_LOG": f"{folder}/process-{process.process_id}.log",
            },
        }
        for process in processes
    ]
