"""First step of a start: the agents, which import the modules that all processes need.

The import takes longest, so it begins before this kernel's own imports; nothing here imports more than the
standard library. Meanwhile `Preflight` makes the doctor's checks, on connections that exist anyway.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbdist.contract.checkup import Checkup, Connection
from nbdist.contract.orders import Assignment
from nbdist.errors import HostError, LaunchError
from nbdist.launch.agents import AgentSpec
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.doctor.examine import clock, kernel_facts
from nbdist.launch.doctor.finding import (
    THIS_MACHINE,
    Examined,
    Finding,
    Needs,
    findings_text,
)
from nbdist.launch.doctor.judge import judge
from nbdist.launch.files import sources
from nbdist.launch.files.sync import Files
from nbdist.launch.launchers import forwarded, job_agents, job_environment
from nbdist.launch.launchers.ssh import controller_address, shell, ssh_agent
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.happenings import AgentEvents
from nbdist.launch.model.hosts import HostInfo
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.rendezvous import Rendezvous
from nbdist.launch.planning import JOBS
from nbdist.launch.start.cluster import KERNEL_LOST_SECONDS, AgentPool, to_the_end
from nbdist.machine import checkup
from nbdist.machine import folder as folders
from nbdist.machine.ports import LOOPBACK, free_ports
from nbdist.spelling import command
from nbdist.version import __version__

CLUSTER_ID = "nbdist"

CONTROLLER_ARGUMENTS = (
    "--nodb",
    # Relays in threads of one process instead of a process each; broadcast trees are for many hosts.
    "--IPController.use_threads=True",
    "--IPController.broadcast_scheduler_depth=0",
    "--log-level=WARN",
)


MOST_TARGETS = 8
"""Hosts that each host tries to reach, from process 0's on: attempts of all to all would grow with the square."""


class Preflight:
    """Checks that run while the processes' agents start.

    Args:
      plan: The processes to be started.
      address: Where the hosts are to find the controller.
    """

    def __init__(self, plan: Plan, address: str) -> None:
        self._plan = plan
        self._here = address == LOOPBACK
        self._address = address
        self._listener: socket.socket | None = None
        forwarded = plan.placement.forwarded
        if forwarded or not self._here:
            with contextlib.suppress(
                OSError
            ):  # behind address translation, the address is not this machine's own
                self._listener = checkup.listen(address, *forwarded[-1:])
        pool = ThreadPoolExecutor(1)
        self._kernel: Future[Checkup] = pool.submit(kernel_facts, {})
        pool.shutdown(wait=False)

    @property
    def asked(self) -> dict[str, Any]:
        """The checks for an agent on another machine: the arguments of `nbdist.machine.checkup.checkup`."""
        if self._listener is None:
            return {}
        return {"connect": [list(self._listener.getsockname()[:2])]}

    def judge(self, info: Mapping[str, HostInfo]) -> list[Finding]:
        """Judge the reports of the hosts and the facts of this machine; close the listener.

        Args:
          info: The facts of other machines, by the name the plan has for them.

        Returns:
          Warnings.

        Raises:
          HostError: A problem on one host with which a start would fail.
          LaunchError: As `HostError`, on this machine.
        """
        self.close()
        kernel = self._kernel.result()
        plan = self._plan
        everyone = [self._examined(name, facts) for name, facts in info.items()]
        here = plan.on(socket.gethostname()) if plan.placement.job is None else ()
        if here:
            name = socket.gethostname()
            everyone.insert(0, Examined(host=name, facts=kernel, processes=len(here)))
        needs = Needs(
            framework=plan.framework,
            backend=plan.backend,
            platform=plan.platform,
            launcher=plan.placement.launcher,
        )
        findings = judge(everyone, kernel=kernel, needs=needs)
        errors = [finding for finding in findings if finding.severity == "error"]
        if errors:
            text, host = findings_text(errors).rstrip(), errors[0].host
            if host in info:
                raise HostError(f"Host {host} cannot take part.\n{text}", host=host)
            raise LaunchError(f"The processes were not started.\n{text}")
        return [finding for finding in findings if finding.severity == "warning"]

    def close(self) -> None:
        """Close the listener that hosts were to reach."""
        if self._listener is not None:
            self._listener.close()

    def _examined(self, name: str, facts: HostInfo) -> Examined:
        placement = self._plan.placement
        typed = f"ssh {name} "
        asked = next((host for host in placement.hosts if host.name == name), None)
        if asked is not None and placement.ssh is not None:
            typed = shell(asked, placement.ssh)
        checks = facts.checks
        connected = checks.connected if checks is not None else None
        return Examined(
            host=name,
            shell=typed,
            facts=checks,
            clock=clock(checks.time, facts.asked_s, facts.received_s) if checks else None,
            reached={THIS_MACHINE: replace(connected[0], address=self._address)}
            if connected
            else {},
            processes=len(self._plan.on(name)) or 1,
        )


def targets(info: Mapping[str, HostInfo]) -> tuple[tuple[str, int], ...]:
    """Return address and port of the first hosts, which every host is to reach."""
    listening = [
        (facts.address, facts.listening)
        for facts in info.values()
        if facts.listening and facts.address is not None
    ]
    return tuple(listening[:MOST_TARGETS])


def unreached(
    info: Mapping[str, HostInfo], host: str, answers: Sequence[Connection]
) -> tuple[str, str] | None:
    """Return the first host that another one did not reach, and a text about it; None if it reached all."""
    names = [name for name, facts in info.items() if facts.listening]
    for name, answer in zip(names, answers, strict=False):
        if answer.error is not None and name != host:
            address = info[name].address
            return name, (
                f"Host {host} cannot connect to host {name} at {address}: {answer.error}. The processes talk "
                "to each other there, on ports that are free at the time. Open TCP between the hosts; "
                f"{command('doctor')} says what to type."
            )
    return None


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
            job_agents(
                placement.job,
                JOBS[placement.launcher].watch(placement.job),
                tasks=len(plan.processes),
                environment=job_environment(clean_environment(os.environ, {}), folder),
            )
        ]
    if placement.ssh is None:
        return []
    return [ssh_agent(host, placement.ssh) for host in placement.hosts if not host.local]


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
