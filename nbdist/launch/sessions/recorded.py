"""Sessions of nbdist's own: recorded when they are up, and found again by another kernel.

`write_down` records a session, `regain` finds one again, and `started_elsewhere` adopts the changes that another
kernel has made since. Another version of nbdist is refused.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from nbdist.contract.calls.engine import Initialized
from nbdist.contract.wire import decode, encode
from nbdist.errors import LaunchError, SessionError, VersionError, WireError
from nbdist.launch.agents import AgentSpec
from nbdist.launch.agents.agent_handle import AgentHandle, JobAgent
from nbdist.launch.agents.fifo_channel import FoundAgain
from nbdist.launch.files.sync import reopen_files
from nbdist.launch.model.framework import Rendezvous
from nbdist.launch.model.happenings import AgentEvents
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.start_options import Rules
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import ParentMark, Record
from nbdist.launch.start.client import Client
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.connect import restart_controller, unanswered
from nbdist.launch.start.pool import AgentPool, Agents, ForeignEngines
from nbdist.launch.start.spawn import agent_specs
from nbdist.notation import names_text, seconds_text
from nbdist.spelling import command
from nbdist.version import __version__


def without_values(plan: Plan) -> Plan:
    """Return the plan as it is recorded: without values of `--env`, since one may be a token.

    A kernel that attaches knows only the names of these variables.
    """
    kept = {name: value for name, value in plan.environment.items() if name not in plan.given}
    return replace(plan, environment=kept, withheld=plan.given)


def with_values(plan: Plan, environment: Mapping[str, str]) -> Plan:
    """Return a plan that can be started again, with values from the environment of this kernel.

    Raises:
      SessionError: A variable is not set there.
    """
    missing = [name for name in plan.withheld if name not in environment]
    if missing:
        raise SessionError(
            f"The session was started with values for {names_text(missing)}, which are not recorded, and this "
            f"kernel has none: %env {missing[0]}=VALUE sets one, then {command('restart')}. Nothing was stopped."
        )
    given = {name: environment[name] for name in plan.withheld}
    return replace(plan, environment={**plan.environment, **given}, withheld=())


def values_used_lines(plan: Plan) -> list[str]:
    """Return a sentence that names the variables whose values come from this kernel; empty if there are none."""
    if not plan.withheld:
        return []
    return [
        f"{names_text(plan.withheld)} taken from this kernel's environment: the values that a session was "
        "started with are not recorded."
    ]


CONNECT_SECONDS = 5
"""Seconds the controller of a running session may take to answer."""

ENGINES_SECONDS = 5.0
"""Seconds to wait for answers of engines through another controller. An engine in a cell does not answer, but by
then it has connected to the controller, which takes a tenth of a second."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """Facts that another kernel needs beyond those of a `Record`; `of` is the name of each process's agent."""

    plan: Plan
    asked: Plan
    rendezvous: Rendezvous
    engines: Mapping[int, int]
    idents: Mapping[int, str]
    pids: Mapping[int, int]
    answers: Mapping[int, Initialized]
    of: Mapping[int, str]
    rules: Rules


def write_down(cluster: Cluster, *, rules: Rules) -> None:
    """Write a session's file, for the first time or after its processes have changed.

    Raises:
      OSError: It cannot be written.
    """
    agents, plan = cluster.own_agents, cluster.plan
    names = {id(agent): name for name, agent in agents.others.items()}
    state = State(
        plan=without_values(plan),
        asked=without_values(cluster.asked),
        rendezvous=cluster.rendezvous,
        engines=cluster.engines,
        idents={p: ident.decode() for p, ident in cluster.idents.items()},
        pids=cluster.pids,
        answers=cluster.answers,
        of={p: names.get(id(agents.of(p)), "") for p in plan.hosts},
        rules=rules,
    )
    before = registry.read(registry.folder() / f"{cluster.session}.json")
    marks = [_mark("", agents.home), *(_mark(n, p) for n, p in agents.others.items())]
    registry.write(
        Record(
            id=cluster.session,
            nbdist=__version__,
            python=registry.python(),
            created=before.created if before else time.time(),
            kept=plan.keep,
            host=socket.gethostname(),
            machine=registry.this_machine(),
            installation=registry.this_installation(),
            cwd=str(Path.cwd()),
            folder=cluster.folder,
            connection=cluster.client_file,
            framework=plan.framework,
            hosts=tuple(dict.fromkeys(plan.hosts.values())),
            processes=len(plan.processes),
            parents=tuple(marks),
            kernels=before.kernels if before else (registry.this_kernel(),),
            state=encode(state),
        )
    )


def _mark(name: str, agent: AgentHandle) -> ParentMark:
    process = agent.found
    return ParentMark(
        name=name,
        pid=agent.pid,
        began=process.began if process else "",
        log=str(agent.log),
        spot=agent.spot,
    )


def regain(record: Record) -> tuple[Cluster, Rules]:
    """Return the processes of a session that another kernel has started, and the rules of the session.

    A session that is not kept ends with its own kernel; other kernels can only attach to it for that long.

    Raises:
      SessionError: It runs on another machine, or its processes are gone.
      VersionError: Another version of nbdist has started it.
    """
    began = time.monotonic()
    _refuse(record)
    try:
        state = decode(State, record.state)
    except WireError as error:
        raise SessionError(
            f"The record of session {record.id} cannot be read ({error}). nbdist stop {record.id} ends it."
        ) from error
    others = sorted(registry.other_kernels(record.id))
    client = None if record.kept else _client(record)
    engines = dict(state.engines)
    agents = _agents(record, state, client, engines)
    cluster = Cluster(
        session=record.id,
        asked=state.asked,
        plan=state.plan,
        folder=record.folder,
        agents=agents,
        began=began,
        rendezvous=state.rendezvous,
        client=client,
        engines=engines,
        idents={p: ident.encode() for p, ident in state.idents.items()},
        pids=dict(state.pids),
        answers=state.answers,
        remarks=_remarks(record, others),
        client_file=record.connection,
    )
    if isinstance(agents, AgentPool):
        cluster.remarks = [*cluster.remarks, *_connect(record, cluster)]
    registry.attach(record)
    return cluster, state.rules


def started_elsewhere(cluster: Cluster) -> dict[int, Initialized]:
    """Adopt processes that another kernel has started in place of others.

    Returns:
      Their answers to the initialization of their framework, by process id.

    Raises:
      SessionError: The session has ended, or goes on with another number of processes.
    """
    if cluster.turn_file:
        return {}  # engines of somebody else: no kernel records them or starts others
    record = registry.read(registry.folder() / f"{cluster.session}.json")
    if record is None:
        return {}  # it could not be recorded, or it has ended, which is noticed elsewhere
    if record.folder != cluster.folder:
        raise SessionError(
            f"Another kernel has started all processes again; there are {record.processes} now. "
            f"{command('attach', cluster.session)} takes part."
        )
    if record.state.get("engines") == encode(cluster.engines):
        return {}
    state = decode(State, record.state)
    new = [p for p, engine in state.engines.items() if cluster.engines.get(p) != engine]
    ended = cluster.exits
    for p in new:
        cluster.engines[p] = state.engines[p]
        cluster.idents[p] = state.idents[p].encode()
        cluster.pids[p] = state.pids[p]
    cluster.agents.forget([p for p in new if p in ended and ended[p].pid != state.pids[p]])
    cluster.rendezvous = state.rendezvous
    return {p: state.answers[p] for p in new}


def _remarks(record: Record, others: Sequence[int]) -> tuple[str, ...]:
    age, ends = seconds_text(time.time() - record.created), command("shutdown")
    what = (
        f"Session {record.id}, started {age} ago; {ends} ends it, a restart of this kernel does not."
        if record.kept
        else f"Session {record.id}, started {age} ago, ends with its own kernel; {ends} only leaves it."
    )
    if not others:
        return (what,)
    pids = ", ".join(map(str, others))
    kernels = f"Kernel {pids} is" if len(others) == 1 else f"Kernels {pids} are"
    return (
        what,
        f"{kernels} attached as well: while one runs a cell, the others see busy processes; all share the same "
        "variables.",
    )


def _refuse(record: Record) -> None:
    if not record.here:
        raise SessionError(
            f"Session {record.id} was started on {record.place}. Attach to it from a kernel there; if that "
            f"machine or container is gone for good, nbdist stop --forget {record.id} takes it off the list."
        )
    if not record.running:
        raise SessionError(
            f"The processes of session {record.id} are gone. {command('start')} starts others."
        )
    if record.nbdist != __version__:
        raise VersionError(
            f"Session {record.id} runs with nbdist {record.nbdist}, this kernel has {__version__}. Run pip "
            f"install nbdist=={record.nbdist} and restart this kernel, or end the session: nbdist stop {record.id}"
        )


def _client(record: Record) -> Any:
    try:
        return Client(record.connection, timeout=CONNECT_SECONDS)
    except (OSError, TimeoutError, ValueError) as error:
        raise SessionError(
            f"The controller of session {record.id} does not answer ({error}). nbdist stop {record.id} ends what "
            "is left of it."
        ) from error


def _connect(record: Record, cluster: Cluster) -> tuple[str, ...]:
    """Connect to the controller, or to a new one if it has ended; return remarks about that.

    Raises:
      SessionError: No controller answers.
    """
    end = cluster.agents.controller_end
    if end is None or not end.of_the_controller:
        cluster.client = _client(record)
        return ()
    try:
        restart_controller(cluster)
    except LaunchError as error:
        raise SessionError(
            f"The controller of session {record.id} has ended, and {error}. nbdist stop {record.id} ends what is "
            "left of it."
        ) from error
    # A request to an engine that has not connected to the controller yet is lost.
    unanswered(cluster, cluster.engines.keys() - cluster.exits.keys(), within_s=ENGINES_SECONDS)
    return (
        f"ipyparallel's controller {replace(end, because_of=None)} meanwhile; another took its place.",
    )


def _agents(record: Record, state: State, client: Any, engines: Mapping[int, int]) -> Agents:
    if not record.kept:
        home = record.parents[0]
        return ForeignEngines(client, engines, home=home.process)
    events = AgentEvents()
    specs = {reach.name: reach for reach in agent_specs(state.plan)}
    found: dict[str, AgentHandle] = {}
    for mark in record.parents:
        reach = specs.get(mark.name) or AgentSpec(name=record.host, remote=bool(mark.name))
        assert mark.spot is not None
        try:
            kind = AgentHandle if reach.watch is None else JobAgent
            found[mark.name] = kind.again(
                reach, FoundAgain(mark.spot), log=Path(mark.log), on_event=events.publish
            )
        except OSError as error:
            raise SessionError(
                f"The files of session {record.id} are gone ({error}). nbdist stop {record.id} ends what is left "
                "of it."
            ) from error
    files = reopen_files(state.plan.placement.sync)
    agents = AgentPool(found.pop(""), found, events=events, files=files)
    agents.assign({p: found.get(name, agents.home) for p, name in state.of.items()})
    return agents
