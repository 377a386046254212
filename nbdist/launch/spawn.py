"""The first thing of a start: the host's parent, which imports what all processes need.

That takes longest, so it begins before this kernel imports what it needs itself; nothing here imports more than
the standard library.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.engine.host import Assignment
from nbdist.launch.framework import framework_plan
from nbdist.launch.hostprocess import HostProcess
from nbdist.launch.meeting import Meeting, meet
from nbdist.launch.plan import Plan, PlannedProcess

CLUSTER_ID = "nbdist"

CONTROLLER_ARGUMENTS = (
    "--nodb",
    "--ip=127.0.0.1",
    # Relays in threads of one process instead of a process each; broadcast trees are for many hosts.
    "--IPController.use_threads=True",
    "--IPController.broadcast_scheduler_depth=0",
    "--log-level=WARN",
)


@dataclass
class Spawned:
    """A host's parent that imports; nothing else has been started.

    `folder` is private to the session. `hears` is called, on a thread of the host's, with each event of the
    parent, once it is set.
    """

    plan: Plan
    folder: str
    meeting: Meeting
    host: HostProcess
    hears: Callable[[dict[str, Any]], None] | None = None

    def stop(self) -> None:
        """Stops it and all that came of it, and removes the session's folder; again, it does nothing."""
        self.host.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


def spawn(plan: Plan) -> Spawned:
    """Starts the parent of the plan's processes; does not wait for anything."""
    meeting = meet(plan)  # may refuse, and then nothing has been started
    folder = tempfile.mkdtemp(prefix="nbdist-")
    assignment = Assignment(
        folder=folder,
        cluster_id=CLUSTER_ID,
        preload=framework_plan(plan.framework).preload(plan),
        fork=plan.start_method == "fork",
        controller_arguments=controller_arguments(
            folder, CLUSTER_ID, processes=len(plan.processes)
        ),
    )

    def on_event(event: dict[str, Any]) -> None:
        if spawned is not None and spawned.hears is not None:
            spawned.hears(event)

    spawned: Spawned | None = None
    environment = clean_environment(os.environ, plan.environment)
    host = HostProcess(assignment, environment=environment, on_event=on_event)
    spawned = Spawned(plan=plan, folder=folder, meeting=meeting, host=host)
    return spawned


def clean_environment(environment: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """The environment engines get: the kernel's, without what would make them behave otherwise.

    `PYTEST_*` switches off ipykernel's capture of file descriptors; the variables of Jupyter's own
    kernel start belong to the kernel alone.
    """
    left_out = ("PYTEST_", "JPY_", "IPP_", "NBDIST_")
    kept = {k: v for k, v in environment.items() if not k.startswith(left_out)}
    return {**kept, **added}


STARVED_SECONDS = 60
"""A starved machine must not lose its engines for so long; a death is told by the nanny at once."""


def controller_arguments(folder: str, cluster_id: str, *, processes: int) -> list[str]:
    """The command line of the controller of a local session.

    Registration waits for a heartbeat: at ipyparallel's 3 s engines come up after 7 s or 10 s. At a tenth of a
    second the controller of ten processes uses 0.6 % of a processor (measured); many have fewer.
    """
    period = max(100, 4 * processes)
    return [
        f"--profile-dir={folder}",
        f"--cluster-id={cluster_id}",
        f"--HeartMonitor.period={period}",
        f"--HeartMonitor.max_heartmonitor_misses={STARVED_SECONDS * 1000 // period}",
        *CONTROLLER_ARGUMENTS,
    ]


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
