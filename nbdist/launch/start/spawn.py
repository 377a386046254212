"""First step of a start: the agents, which import the modules that all processes need.

The import takes longest, so it begins before this kernel's own imports; nothing here imports more than the
standard library.
"""

from __future__ import annotations

import contextvars
import os
import secrets
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbdist.contract.orders import Assignment, NewProcess
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.channel import AgentSpec
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.doctor.finding import Finding
from nbdist.launch.files.listing import sources
from nbdist.launch.files.sync import Files
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import AgentEvents
from nbdist.launch.model.plan import Plan, PlannedProcess
from nbdist.launch.model.rendezvous import Rendezvous
from nbdist.launch.start.agent_commands import (
    controller_address,
    forwarded,
    job_environment,
    job_reach,
    ssh_reach,
)
from nbdist.launch.start.agents import KERNEL_LOST_SECONDS, AgentPool
from nbdist.launch.start.preflight import Preflight
from nbdist.machine import folder as folders
from nbdist.machine.ports import LOOPBACK, free_ports
from nbdist.version import __version__

CLUSTER_ID = "nbdist"

CONTROLLER_ARGUMENTS = (
    "--nodb",
    # Relays in threads of one process instead of a process each; broadcast trees are for many hosts.
    "--IPController.use_threads=True",
    "--IPController.broadcast_scheduler_depth=0",
    "--log-level=WARN",
)


@dataclass
class Spawned:
    """Agents that import modules; nothing else has been started.

    `folder` is private to the session. `began` is when this start began (monotonic). `rendezvous` is None until
    all hosts have sent their first event. `warnings` are findings of the checks.
    """

    plan: Plan
    folder: str
    agents: AgentPool
    began: float
    preflight: Preflight
    rendezvous: Rendezvous | None = None
    warnings: list[Finding] = field(default_factory=list)

    def stop(self) -> None:
        """Stop the agents and everything they started, and remove the session's folder; do nothing a second time.

        Raises:
          KeyboardInterrupt: The user's; they are stopped all the same.
        """
        to_the_end(self._stop)

    def _stop(self) -> None:
        self.preflight.close()
        self.agents.stop()
        folders.remove(self.folder)


def spawn(plan: Plan) -> Spawned:
    """Start the agents of the plan's processes; do not wait for anything."""
    began = time.monotonic()
    plan = _tunnelled(plan) if plan.placement.tunnel else plan
    files = Files(sources(plan.placement.sync)) if plan.placement.sync else None
    near = plan.placement.on_this_machine or plan.placement.tunnel
    address = LOOPBACK if near else controller_address(plan.placement)
    folder = folders.make()
    preflight = Preflight(plan, address)
    started: list[AgentHandle] = []
    events = AgentEvents()

    def start(reach: AgentSpec, assignment: Assignment, name: str) -> AgentHandle:
        log = Path(folder) / f"{name}.log"
        kind = AgentHandle if reach.watch is None else JobAgent
        agent = kind.begin(reach, assignment, log=log, on_event=events.publish)
        started.append(agent)
        return agent

    try:
        # Agents on other machines first: their connections take time, too.
        others = {
            reach.name: start(
                reach, elsewhere(plan, reach, address, preflight.asked, files), f"host-{number}"
            )
            for number, reach in enumerate(reaches(plan, folder))
        }
        home = start(
            AgentSpec(
                name=socket.gethostname(),
                environment=clean_environment(os.environ, plan.environment),
            ),
            at_home(plan, folder, address, files),
            "host",
        )
    except BaseException:
        to_the_end(lambda: _give_up(started, preflight, folder))
        raise
    agents = AgentPool(home, others, events=events, files=files)
    return Spawned(
        plan=plan,
        folder=folder,
        agents=agents,
        began=began,
        preflight=preflight,
    )


TUNNELLED = 8
"""Ports of ipyparallel's controller for engines, without broadcast trees (9.2, `IPController.init_hub`)."""


def _tunnelled(plan: Plan) -> Plan:
    """Return the plan with the ports that ssh forwards: the controller's, and one for the checks before."""
    ssh = plan.placement.ssh
    assert ssh is not None
    forwarded = replace(ssh, forwarded=tuple(free_ports(TUNNELLED + 1)))
    return replace(plan, placement=replace(plan.placement, ssh=forwarded))


def _give_up(started: Sequence[AgentHandle], preflight: Preflight, folder: str) -> None:
    for agent in started:
        agent.stop()
    preflight.close()
    folders.remove(folder)


def reaches(plan: Plan, folder: str | None = None) -> list[AgentSpec]:
    """Return how the agents on other machines are started; `folder` is the session's folder here."""
    placement = plan.placement
    if placement.job is not None:
        return [
            job_reach(
                placement.job,
                placement.launcher,
                tasks=len(plan.processes),
                environment=job_environment(clean_environment(os.environ, {}), folder),
            )
        ]
    if placement.ssh is None:
        return []
    return [ssh_reach(host, placement.ssh) for host in placement.hosts if not host.local]


def at_home(plan: Plan, folder: str, address: str, files: Files | None = None) -> Assignment:
    """Return the assignment for the agent of this machine: the controller, and the processes that run here."""
    mine = plan.placement.job is None and plan.on(socket.gethostname())
    return Assignment(
        nbdist=__version__,
        folder=folder,
        cluster_id=CLUSTER_ID,
        preload=tuple(framework_named(plan.framework).preload(plan) if mine else ()),
        fork=plan.start_method == "fork",
        controller_arguments=tuple(
            controller_arguments(
                folder,
                CLUSTER_ID,
                processes=len(plan.processes),
                address=address,
                ports=plan.placement.forwarded[:TUNNELLED],
            )
        ),
        # One port for each process that may run here, whatever its host is named.
        ports=0 if plan.placement.job is not None else len(plan.processes),
        controller_address=None if address == LOOPBACK else address,
        kept=plan.keep,
        kernel=os.getpid(),
        paths=tuple(files.here) if files is not None else (),
    )


def elsewhere(
    plan: Plan,
    reach: AgentSpec,
    address: str,
    checks: dict[str, Any] | None = None,
    files: Files | None = None,
) -> Assignment:
    """Return the assignment for an agent on another machine."""
    job = plan.placement.job is not None
    count = 1 if job else len(plan.on(reach.name))
    cwd = plan.placement.cwd
    return Assignment(
        nbdist=__version__,
        cluster_id=CLUSTER_ID,
        preload=tuple(framework_named(plan.framework).preload(plan)),
        fork=plan.start_method == "fork",
        controller_address=address,
        environment={
            **forwarded(os.environ),
            **(reach.host.environment if reach.host else {}),
            **plan.environment,
        },
        cwd=cwd or str(Path.cwd()),
        cwd_copy=files.folder_there(Path.cwd()) if files is not None and cwd is None else None,
        paths=tuple(files.there) if files is not None else (),
        ports=count,
        silence_s=KERNEL_LOST_SECONDS,
        kept=plan.keep,
        checks=checks,
    )


def clean_environment(environment: Mapping[str, str], added: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of engines: the kernel's, without variables that would change their behaviour.

    `PYTEST_*` switches off ipykernel's capture of file descriptors; the variables of Jupyter's own
    kernel start belong to the kernel alone.
    """
    left_out = ("PYTEST_", "JPY_", "IPP_", "NBDIST_")
    kept = {k: v for k, v in environment.items() if not k.startswith(left_out)}
    return {**kept, **added}


PAUSED_SECONDS = 3600
"""Seconds that engines may be stopped or starved before ipyparallel gives them up; the nanny reports deaths."""


def controller_arguments(
    folder: str,
    cluster_id: str,
    *,
    processes: int,
    address: str = LOOPBACK,
    ports: Sequence[int] = (),
) -> list[str]:
    """Return the command line of the controller of a session.

    Registration waits for a heartbeat: at ipyparallel's 3 s engines come up after 7 s or 10 s. At a tenth of a
    second the controller of ten processes uses 0.6 % of a processor (measured); for many processes it beats more
    slowly. `ports` are those for engines, empty for any.
    """
    period = max(100, 4 * processes)
    return [
        f"--profile-dir={folder}",
        f"--cluster-id={cluster_id}",
        f"--ip={address}",
        f"--location={address}",
        # With CURVE, ipyparallel by itself signs nothing, and admits anyone who has the public key. No other user
        # can read this key on a command line: the arguments reach a fork through a pipe.
        f"--Session.key={secrets.token_hex(32)}",
        *([f"--IPController.engine_ports={','.join(map(str, ports))}"] if ports else []),
        f"--HeartMonitor.period={period}",
        f"--HeartMonitor.max_heartmonitor_misses={PAUSED_SECONDS * 1000 // period}",
        *CONTROLLER_ARGUMENTS,
    ]


def planned(
    processes: Sequence[PlannedProcess],
    environment: Callable[[PlannedProcess], Mapping[str, str]],
) -> list[NewProcess]:
    """Return the agent's data for each planned process, the framework's `environment` included."""
    return [
        NewProcess(
            process_id=process.process_id,
            environment={
                **environment(process),
                "NBDIST_PROCESS_ID": str(process.process_id),
            },
        )
        for process in processes
    ]


def to_the_end(call: Callable[[], None]) -> None:
    """Run `call` on a thread, which no signal reaches: an interrupt ends the wait, not the call.

    The interpreter waits for that thread before it ends. If no thread can be started any more (at the end of a
    program), the call runs here.

    Raises:
      KeyboardInterrupt: The user's; the call goes on.
    """
    errors: list[Exception] = []

    def called() -> None:
        try:
            call()
        except Exception as error:  # noqa: BLE001 - raised again where it was called
            errors.append(error)

    context = contextvars.copy_context()  # error texts use the syntax of the person's interface
    thread = threading.Thread(target=context.run, args=(called,), name="nbdist to the end")
    try:
        thread.start()
    except RuntimeError:  # "can't create new thread at interpreter shutdown"
        call()
        return
    thread.join()
    if errors:
        raise errors[0]
