"""From a plan to connected engines: each knows its process id and speaks the kernel's version."""

from __future__ import annotations

import os
import tempfile
import time
from pathlib import Path
from typing import Any

import ipyparallel

from nbdist.engine.host import Assignment, read_whole
from nbdist.launch.connect import check, connect
from nbdist.launch.framework import framework_plan
from nbdist.launch.hostprocess import HostProcess
from nbdist.launch.local import (
    LocalController,
    LocalEngines,
    clean_environment,
    controller_arguments,
)
from nbdist.launch.meeting import meet
from nbdist.launch.plan import Plan
from nbdist.launch.running import POLL_SECONDS, Running, Tell

CLUSTER_ID = "nbdist"


def start(plan: Plan, *, tell: Tell) -> Running:
    """Starts what the plan says and waits until every engine has answered.

    Raises:
      LaunchError: An engine ended, could not import its framework, or did not come up in time; all
        that had been started is stopped again.
      VersionError: An engine's nbdist is another version.
      KeyboardInterrupt: As raised by the user; also then nothing is left.
    """
    running = _spawn(plan)
    try:
        _open_client(running, tell)
        connect(running, plan.hosts, tell=tell)
    except BaseException:
        running.stop()
        raise
    return running


def _spawn(plan: Plan) -> Running:
    folder = tempfile.mkdtemp(prefix="nbdist-")
    assignment = Assignment(
        folder=folder,
        cluster_id=CLUSTER_ID,
        preload=framework_plan(plan.framework).preload(plan),
        fork=plan.start_method == "fork",
        controller_arguments=controller_arguments(folder, CLUSTER_ID),
    )
    environment = clean_environment(os.environ, plan.environment)
    running: Running | None = None

    def on_event(event: dict[str, Any]) -> None:
        if running is not None and running.on_event is not None:
            running.on_event(event)

    host = HostProcess(assignment, environment=environment, on_event=on_event)
    cluster = ipyparallel.Cluster(
        controller=LocalController,
        engines=LocalEngines,
        profile_dir=folder,
        cluster_id=CLUSTER_ID,
        cluster_file="",
        load_profile=False,
        send_engines_connection_env=False,
        shutdown_atexit=False,
        parent=None,
        log_level=40,
    )
    running = Running(plan=plan, folder=folder, host=host, cluster=cluster, meeting=meet(plan))
    try:
        cluster.start_controller_sync(host=host)
        processes = running.planned(plan.processes)
        cluster.start_engines_sync(n=len(processes), host=host, processes=processes)
    except BaseException:
        running.stop()
        raise
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
