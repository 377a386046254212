"""First step of a start: the agents, which import the modules that all processes need.

That import takes longest, so it begins before this kernel's own imports; this module imports only the standard
library.
"""

from __future__ import annotations

import os
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from nbdist.contract.orders import Assignment
from nbdist.launch.agents import AgentSpec
from nbdist.launch.agents.agent_handle import AgentHandle, JobAgent
from nbdist.launch.files import sources
from nbdist.launch.files.sync import Files
from nbdist.launch.launchers import forwarded, job_agents, job_environment, watch_on
from nbdist.launch.launchers.ssh import controller_address, ssh_agent
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import AgentEvents
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.cluster import Cluster, to_the_end
from nbdist.launch.start.pool import AgentPool
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


def spawn(asked: Plan, *, session: str) -> Cluster:
    """Start the agents of the plan's processes; do not wait.

    Args:
      asked: The plan.
      session: The session's id.
    """
    began = time.monotonic()
    plan = _tunnelled(asked) if asked.placement.tunnel else asked
    files = Files(sources(plan.placement.sync)) if plan.placement.sync else None
    by_loopback = plan.placement.on_this_machine or plan.placement.tunnel
    address = LOOPBACK if by_loopback else controller_address(plan.placement)
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
        # Agents on other machines first, since their connections take time.
        others = {
            reach.name: start(
                reach,
                remote_assignment(plan, reach, address, preflight.asked, files),
                f"host-{number}",
            )
            for number, reach in enumerate(agent_specs(plan, folder))
        }
        home = start(
            AgentSpec(
                name=socket.gethostname(),
                environment=clean_environment(os.environ, plan.environment),
            ),
            local_assignment(plan, folder, address, files),
            "host",
        )
    except BaseException:
        to_the_end(lambda: _give_up(started, preflight, folder))
        raise
    return Cluster(
        session=session,
        asked=asked,
        plan=plan,
        folder=folder,
        agents=AgentPool(home, others, events=events, files=files),
        began=began,
        preflight=preflight,
    )


TUNNELLED = 8
"""Ports that ipyparallel's controller has for engines, without broadcast trees (9.2, `IPController.init_hub`)."""


def _tunnelled(plan: Plan) -> Plan:
    """Return the plan with the ports that ssh forwards: the controller's, and one for the checks."""
    ssh = plan.placement.ssh
    assert ssh is not None
    forwarded = replace(ssh, forwarded=tuple(free_ports(TUNNELLED + 1)))
    return replace(plan, placement=replace(plan.placement, ssh=forwarded))


def _give_up(started: Sequence[AgentHandle], preflight: Preflight, folder: str) -> None:
    for agent in started:
        agent.stop()
    preflight.close()
    folders.remove(folder)


def agent_specs(plan: Plan, folder: str | None = None) -> list[AgentSpec]:
    """Return how the agents on other machines are started; `folder` is the session's folder here."""
    placement = plan.placement
    if placement.job is not None:
        return [
            job_agents(
                placement.job,
                watch_on(placement.launcher, placement.job),
                tasks=len(plan.processes),
                environment=job_environment(clean_environment(os.environ, {}), folder),
            )
        ]
    if placement.ssh is None:
        return []
    return [ssh_agent(host, placement.ssh) for host in placement.hosts if not host.local]


def local_assignment(
    plan: Plan, folder: str, address: str, files: Files | None = None
) -> Assignment:
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
        paths=tuple(files.local_folders) if files is not None else (),
    )


KERNEL_LOST_SECONDS = 900.0
"""Seconds of silence after which a host that is still connected to a kernel gives the kernel up.

A suspended kernel, or one whose machine sleeps, sends nothing; to a host that looks like a broken connection, and
its processes wait. A kernel that ends closes the connection, which ends everything at once. Linux gives up a
connection without acknowledgements after about the same time (tcp(7), `tcp_retries2`: 924.6 s), so a longer time
would gain nothing."""


def remote_assignment(
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
        cwd_copy=files.remote_cwd(Path.cwd()) if files is not None and cwd is None else None,
        paths=tuple(files.remote_folders) if files is not None else (),
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
"""Seconds that engines may be suspended before ipyparallel gives them up; nannies report deaths at once."""


def controller_arguments(
    folder: str,
    cluster_id: str,
    *,
    processes: int,
    address: str = LOOPBACK,
    ports: Sequence[int] = (),
) -> list[str]:
    """Return the command line of the controller of a session.

    Registration waits for a heartbeat: with ipyparallel's 3 s engines come up after 7 s or 10 s. Ten a second use
    0.6 % of a processor for ten processes, so there are fewer once all are registered
    (`nbdist.agent.programs.beat_as_needed`), and fewer for many processes.

    Args:
      folder: The session's private folder.
      cluster_id: Names the connection files in the folder.
      processes: How many processes the session has.
      address: Where the controller listens.
      ports: The ports for engines, empty for any.
    """
    period = max(100, 4 * processes)
    return [
        f"--profile-dir={folder}",
        f"--cluster-id={cluster_id}",
        f"--ip={address}",
        f"--location={address}",
        # With CURVE alone, ipyparallel signs nothing and admits anyone who has the public key. No other user can
        # read this key on a command line: the arguments reach the controller's fork through a pipe.
        f"--Session.key={secrets.token_hex(32)}",
        *([f"--IPController.engine_ports={','.join(map(str, ports))}"] if ports else []),
        f"--HeartMonitor.period={period}",
        f"--HeartMonitor.max_heartmonitor_misses={PAUSED_SECONDS * 1000 // period}",
        *CONTROLLER_ARGUMENTS,
    ]
