"""From a plan to connected engines: each knows its process id and speaks the kernel's version."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import ipyparallel

from nbdist.engine.calls import PROTOCOL
from nbdist.engine.host import CONTROLLER, Assignment, read_whole
from nbdist.errors import LaunchError, VersionError
from nbdist.launch.calling import ask
from nbdist.launch.framework import framework_plan
from nbdist.launch.hostprocess import Exit, HostProcess
from nbdist.launch.local import (
    LocalController,
    LocalEngines,
    clean_environment,
    controller_arguments,
    planned,
)
from nbdist.launch.meeting import Meeting, meet
from nbdist.launch.plan import Plan, PlannedProcess
from nbdist.quantities import processes_text
from nbdist.version import __version__

Tell = Callable[[str, int, int], None]
"""Called with a stage's words, how many processes have reached it, and how many there are."""

POLL_SECONDS = 0.01
CLUSTER_ID = "nbdist"


@dataclass
class Running:
    """Started and connected engines.

    `engines` maps process ids to ipyparallel's engine ids, which follow the order of registration and mean
    nothing else; `idents` to the names their messages are routed by.
    """

    plan: Plan
    folder: str
    host: HostProcess
    cluster: Any
    meeting: Meeting
    client: Any = None
    engines: dict[int, int] = field(default_factory=dict)
    idents: dict[int, bytes] = field(default_factory=dict)
    pids: dict[int, int] = field(default_factory=dict)
    on_event: Callable[[dict[str, Any]], None] | None = None

    def planned(self, processes: Sequence[PlannedProcess]) -> list[dict[str, Any]]:
        """What the host's parent needs in order to start these."""
        framework = framework_plan(self.plan.framework)
        return planned(
            processes,
            self.folder,
            lambda process: framework.environment(self.plan, process, self.meeting),
        )

    def signal(self, number: int, process_ids: Sequence[int]) -> None:
        """Sends a signal to processes."""
        self.host.signal(number, process_ids)

    @property
    def connection(self) -> dict[str, Any]:
        """ipyparallel's connection info for clients."""
        path = self.cluster.controller.connection_files["client"]
        return json.loads(Path(path).read_text())  # type: ignore[no-any-return]

    @property
    def exits(self) -> dict[int, Exit]:
        """How processes ended that have, or why they can no longer be reached."""
        ends = {p: end for p, end in self.host.exits.items() if p != CONTROLLER}
        lost = self.host.out_of_reach()
        if lost is not None:
            for process in self.plan.processes:
                ends.setdefault(process.process_id, replace(lost, process_id=process.process_id))
        return ends

    def stop(self) -> None:
        """Stops all that was started here, and removes the session's folder."""
        if self.client is not None:
            self.client.close()
        self.host.stop()
        shutil.rmtree(self.folder, ignore_errors=True)


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
        _connect(running, tell)
        _greet(running, tell)
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


def _connect(running: Running, tell: Tell) -> None:
    """Waits for the controller, then for every engine to register."""
    total = len(running.plan.processes)
    deadline = time.monotonic() + running.plan.start_timeout_s
    tell("starting", 0, total)
    path = running.cluster.controller.connection_files["client"]
    while read_whole(Path(path)) is None:
        _check(running, deadline)
        time.sleep(POLL_SECONDS)
    running.client = ipyparallel.Client(path, cluster=running.cluster)
    connected = -1
    while connected < total:
        _check(running, deadline)
        if len(running.client.ids) != connected:
            connected = len(running.client.ids)
            tell("connected", connected, total)
        else:
            time.sleep(POLL_SECONDS)


def _check(running: Running, deadline: float) -> None:
    """Raises when the start can no longer succeed."""
    host, plan = running.host, running.plan
    if host.failure is not None:
        raise LaunchError(
            f"{processes_text(plan.hosts)} (host {plan.processes[0].host}) cannot import "
            f"{host.failure['module']}: {host.failure['error']}\n"
            f"{install_text(host.failure['module'])}, or check --env PYTHONPATH.\n"
            f"{host.failure['trace'].rstrip()}"
        )
    if host.exits:
        raise LaunchError(_ended(running, next(iter(host.exits.values()))))
    if host.poll() is not None:
        lines = "\n".join(host.last_lines(CONTROLLER))
        raise LaunchError(f"The engines' parent process ended (exit code {host.poll()}).\n{lines}")
    if time.monotonic() > deadline:
        missing = len(plan.processes) - len(running.client.ids if running.client else ())
        raise LaunchError(
            f"{missing} of {len(plan.processes)} processes did not connect within "
            f"{plan.start_timeout_s:g} s on {plan.processes[0].host}; all were stopped again. "
            "Give them longer with --start-timeout."
        )


def install_text(module: str) -> str:
    """What to type when the processes lack a package."""
    extra = module if module in ("keras", "tensorflow") else None
    what = f"'nbdist[{extra}]'" if extra else module
    return f"In the environment of this notebook's kernel run: pip install {what}"


def _ended(running: Running, end: Exit) -> str:
    who = "The controller" if end.process_id == CONTROLLER else f"Process {end.process_id}"
    host = running.plan.hosts.get(end.process_id, running.plan.processes[0].host)
    lines = "\n".join(f"  {line}" for line in end.last_lines)
    return f"{who} (host {host}, pid {end.pid}) {end} while it started.\n{lines}".rstrip()


def _greet(running: Running, tell: Tell) -> None:
    """The first message: who is who, and the versions compared."""
    client = running.client
    asked = {engine: ask(client[engine], "hello", process_id=None) for engine in list(client.ids)}
    deadline = time.monotonic() + running.plan.start_timeout_s
    for engine, answer in asked.items():
        while not answer.ready():
            _check(running, deadline)
            answer.wait(POLL_SECONDS)
        facts, _ = answer.get()
        process_id, host = facts["process_id"], facts["host"]
        if (facts["nbdist"], facts["protocol"]) != (__version__, PROTOCOL):
            raise VersionError(
                f"Process {process_id} (host {host}) has nbdist {facts['nbdist']}, this kernel has "
                f"{__version__}. On {host} run: pip install nbdist=={__version__}"
            )
        running.engines[process_id] = engine
        running.idents[process_id] = facts["ident"].encode()
        running.pids[process_id] = facts["pid"]
    tell("ready", len(running.engines), len(running.plan.processes))
