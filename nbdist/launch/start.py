"""From a plan to connected engines: each knows its process id and speaks the kernel's version."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import ipyparallel

from nbdist.engine.host import read_whole
from nbdist.launch.connect import check, connect
from nbdist.launch.local import LocalController, LocalEngines
from nbdist.launch.running import POLL_SECONDS, Running, Tell
from nbdist.launch.spawn import CLUSTER_ID, Spawned


def start(spawned: Spawned, *, tell: Tell) -> Running:
    """Starts what the plan says and waits until every engine has answered.

    Args:
      spawned: The host's parent, which may still be importing.
      tell: Hears how far the start is.

    Raises:
      LaunchError: An engine ended, could not import its framework, or did not come up in time; all
        that had been started is stopped again.
      VersionError: An engine's nbdist is another version.
      KeyboardInterrupt: As raised by the user; also then nothing is left.
    """
    try:
        running = _engines(spawned)
        _open_client(running, tell)
        connect(running, spawned.plan.hosts, tell=tell)
    except BaseException:
        spawned.stop()
        raise
    return running


def _engines(spawned: Spawned) -> Running:
    """Asks for the controller and all engines."""
    plan, host = spawned.plan, spawned.host
    cluster = ipyparallel.Cluster(
        controller=LocalController,
        engines=LocalEngines,
        profile_dir=spawned.folder,
        cluster_id=CLUSTER_ID,
        cluster_file="",
        load_profile=False,
        send_engines_connection_env=False,
        shutdown_atexit=False,
        parent=None,
        log_level=40,
    )
    running = Running(
        plan=plan, folder=spawned.folder, host=host, cluster=cluster, meeting=spawned.meeting
    )

    def on_event(event: dict[str, Any]) -> None:
        if running.on_event is not None:
            running.on_event(event)

    spawned.hears = on_event
    cluster.start_controller_sync(host=host)
    processes = running.planned(plan.processes)
    cluster.start_engines_sync(n=len(processes), host=host, processes=processes)
    return running


def _open_client(running: Running, tell: Tell) -> None:
    """Waits for the controller, and connects to it."""
    deadline = time.monotonic() + running.plan.start_timeout_s
    tell("starting", 0, len(running.plan.processes))
    path = running.cluster.controller.connection_files["client"]
    while read_whole(Path(path)) is None:
        check(running, running.plan.hosts, deadline)
        time.sleep(POLL_SECONDS)
    running.client = ipyparallel.Client(path, cluster=running.cluster)
