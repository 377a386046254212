"""First contact with started engines: each registers, says its process id, and proves to have our version."""

from __future__ import annotations

import re
import time
from collections.abc import Collection

from nbdist.contract.calls.engine import Hello, OtherNbdist
from nbdist.contract.events import ImportFailed
from nbdist.contract.orders import CONTROLLER
from nbdist.errors import LaunchError, VersionError
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.model.framework import framework_named, framework_names
from nbdist.launch.model.happenings import POLL_SECONDS, ProcessExit, StartProgress
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.hosts import check_home, check_host
from nbdist.launch.start.preflight import unreached
from nbdist.launch.start.request import Repeated
from nbdist.notation import processes_text
from nbdist.spelling import command, option
from nbdist.version import __version__

GREET_SECONDS = 3.0
"""An engine that has not answered the first message for this time is asked once more.

The hub knows an engine by its heartbeat, which may come before the scheduler of requests has the engine's own
connection."""


def connect(
    running: Cluster,
    process_ids: Collection[int],
    *,
    known: Collection[int] = (),
    progress: StartProgress,
) -> None:
    """Wait until these processes have registered and answered the first message.

    Args:
      running: The engines.
      process_ids: The processes that have just been started.
      known: ipyparallel's ids of earlier engines, dead ones included: the hub may list those for a while.
      progress: Called with how many have come.

    Raises:
      LaunchError: One ended, could not import its framework, or did not come up in time.
      VersionError: One has another version of nbdist.
    """
    deadline = time.monotonic() + running.plan.start_timeout_s
    total, connected = len(process_ids), -1
    running.connected = 0
    while connected < total:
        check(running, process_ids, deadline)
        found = len(set(running.client.ids) - set(known))
        if found != connected:
            connected = running.connected = found
            progress("connected", connected, total)
        else:
            time.sleep(POLL_SECONDS)
    _greet(running, set(running.client.ids) - set(known), process_ids, deadline)
    running.own_agents.stop_listening()
    progress("ready", total, total)


def check(running: Cluster, process_ids: Collection[int], deadline: float) -> None:
    """Raise an error if the start of these processes can no longer succeed.

    Raises:
      LaunchError: Says which, why, and what to type.
    """
    plan, agents = running.plan, running.own_agents
    for agent in agents.all:
        failure = agent.failure
        if failure is not None and isinstance(failure.event, ImportFailed):
            raise LaunchError(_cannot_import(running, agent, failure.event, failure.task))
    exits = [end for p, end in agents.exits.items() if p in process_ids]
    ended = [end for end in exits if end.because_of is None]
    controller = agents.home.exits.get(CONTROLLER)
    if ended or controller:
        raise LaunchError(_ended(running, controller or ended[0]))
    check_hosts(running)
    check_home(agents.home)
    if exits:
        # A process on one of several hosts of a job; the end of a whole agent is reported above.
        raise LaunchError(_ended(running, exits[0]))
    if time.monotonic() > deadline:
        missing = len(process_ids) - running.connected
        hosts = ", ".join(sorted(set(plan.hosts.values())))
        who = f"{missing} of {len(process_ids)} processes did not connect"
        if not missing:
            who = f"All {len(process_ids)} processes connected, but not all answered the first message"
        raise LaunchError(
            f"{who} within {plan.start_timeout_s:g} s (host {hosts}). Give them longer with "
            f"{option('start_timeout_s')}.{_unreached(running)}"
        )


def check_hosts(running: Cluster) -> None:
    """Raise an error if a host can no longer take part, or does not reach another.

    Raises:
      HostError: Says which host, and why.
      LaunchError: Says which does not reach which.
    """
    for name, agent in running.agents.others.items():
        check_host(name, agent)
        _check_ways(running, name, agent)


def _check_ways(running: Cluster, name: str, agent: AgentHandle) -> None:
    """Raise an error if hosts cannot reach each other: they would wait in the first collective."""
    for task, (moment, answers) in agent.reached.items():
        host = name if task is None else running.plan.hosts[task]
        found = unreached(running.info, host, answers)
        # A host that has just died is not reached, either; its own silence is reported in that case.
        if found is not None and running.own_agents.received_since(found[0], moment):
            raise LaunchError(found[1])


def _unreached(running: Cluster) -> str:
    """Return a further possible cause, if other machines must reach the controller."""
    if not running.agents.others or running.plan.placement.tunnel:
        return ""
    address = running.connection["interface"].rpartition("/")[2]
    return (
        f" If that does not help, the hosts may not reach this machine at {address}: look with "
        f"{command('doctor')}, name another address with {option('controller_address')}, or go through ssh with "
        f"{option('tunnel', True)}."
    )


def _cannot_import(
    running: Cluster, agent: AgentHandle, failure: ImportFailed, task: int | None
) -> str:
    plan = running.plan
    ids = [p for p in plan.hosts if running.agents.of(p) is agent and (task is None or p == task)]
    host = plan.hosts[ids[0]]
    there = f" of host {host}" if agent.reach.remote else " of this notebook's kernel"
    return (
        f"{processes_text(ids)} (host {host}) cannot import {failure.module}: "
        f"{failure.error}\n{install_text(failure.module, failure.error, where=there)}, or check "
        f"PYTHONPATH in {option('environment')}.\n{failure.trace.rstrip()}"
    )


def install_text(module: str, error: str = "", *, where: str = " of this notebook's kernel") -> str:
    """Return what to type when the processes cannot import `module`, or the module that `error` names."""
    missing = re.search(r"No module named '(\w+)", error)
    lacking = missing[1] if missing else module
    known = lacking in framework_names()
    what = framework_named(lacking).requirement if known else lacking
    return f"In the environment{where} run: pip install {what}"


def _ended(running: Cluster, end: ProcessExit) -> str:
    who = "The controller" if end.process_id == CONTROLLER else f"Process {end.process_id}"
    host = running.plan.hosts.get(end.process_id, running.own_agents.home.reach.name)
    lines = "\n".join(f"  {line}" for line in end.last_lines)
    pid = f", pid {end.pid}" if end.because_of is None else ""
    return f"{who} (host {host}{pid}) {end} while it started.\n{lines}".rstrip()


def _greet(
    running: Cluster, engines: Collection[int], process_ids: Collection[int], deadline: float
) -> None:
    """Send the first message, which tells who is who, and compare versions."""
    hello = Hello(process_id=None, framework=running.plan.framework)
    asked = {
        engine: Repeated(running.client, engine, hello, again_s=GREET_SECONDS) for engine in engines
    }
    for engine, greeted in asked.items():
        while (answer := greeted.answer(within_s=POLL_SECONDS)) is None:
            check(running, process_ids, deadline)
        facts, _ = answer.get()
        if isinstance(facts, OtherNbdist) or facts.nbdist != __version__:
            raise VersionError(
                f"Process {facts.process_id} (host {facts.host}) has nbdist {facts.nbdist}, this kernel has "
                f"{__version__}. On {facts.host} run: pip install nbdist=={__version__}"
            )
        running.engines[facts.process_id] = engine
        running.idents[facts.process_id] = facts.ident.encode()
        running.pids[facts.process_id] = facts.pid
