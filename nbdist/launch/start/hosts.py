"""Wait for the first event of every host, before anything is started on any.

For a job, the wait includes its time in the queue. When all hosts have answered, it is known where the processes
can serve: at ports that their agents reserve for them. A host that cannot take part ends the wait, with an error
that says what to type.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeVar

from nbdist.contract.events import ImportFailed, OtherVersion, Refused, Reserved
from nbdist.contract.orders import Reach, ReservePorts
from nbdist.errors import HostError, LaunchError
from nbdist.launch.agents.agent_handle import AgentHandle, JobAgent
from nbdist.launch.doctor.finding import do_text, refused
from nbdist.launch.files.sync import first_failure
from nbdist.launch.launchers import (
    install_nbdist,
    job_ended,
    lacks_nbdist,
    other_python,
    other_version,
)
from nbdist.launch.model.framework import Place, meet
from nbdist.launch.model.happenings import POLL_SECONDS, StartProgress, with_words
from nbdist.launch.model.hosts import HostInfo
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.cluster import Cluster
from nbdist.launch.start.pool import Agents
from nbdist.launch.start.preflight import targets, unreached
from nbdist.machine.ports import LOOPBACK
from nbdist.notation import count_text
from nbdist.spelling import command, option

T = TypeVar("T")

QUEUE_POLL_SECONDS = 0.03
SHOW_SECONDS = 1.0
"""Seconds between two displays of a waiting job; the display shows that the start is alive, perhaps for hours."""


def wait_for_tasks(
    cluster: Cluster, check: Callable[[str, AgentHandle], None], *, progress: StartProgress
) -> None:
    """Wait until every task of the job has sent its first event, without a limit while the job waits in a queue.

    Args:
      cluster: A start whose plan is for a job.
      check: Called with the agent's name and the agent; raises when it can no longer take part.
      progress: Called with the state of the job, and how many tasks have begun.

    Raises:
      HostError: The job has ended, or not all tasks began in time after it had begun.
    """
    ((name, agent),) = cluster.agents.others.items()
    assert isinstance(agent, JobAgent)
    total, limit_s = len(cluster.plan.processes), cluster.plan.start_timeout_s
    begun, shown_at, launched = time.monotonic(), float("-inf"), -1
    while True:
        check(name, agent)
        waiting = agent.waiting
        if waiting is not None:
            begun = time.monotonic()
            if begun - shown_at >= SHOW_SECONDS:
                progress(waiting, 0, total)
                shown_at = begun
        elif len(agent.facts) != launched:
            launched = len(agent.facts)
            progress("launched", launched, total)
        if launched == total:
            return
        if time.monotonic() - begun > limit_s:
            raise HostError(_missing(agent, total, limit_s), host=name)
        time.sleep(QUEUE_POLL_SECONDS)


def _missing(agent: AgentHandle, total: int, limit_s: float) -> str:
    missing = sorted(set(range(total)) - {task for task in agent.facts if task is not None})
    listed = ", ".join(map(str, missing[:8])) + (", …" if len(missing) > 8 else "")
    text = (
        f"{len(missing)} of {count_text(total, 'process')} ({listed}) did not begin within {limit_s:g} s after "
        f"{agent.reach.name} had started them. Give them longer with {option('start_timeout_s')}."
    )
    return with_words(text, agent.last_words())


HostAgent = tuple[AgentHandle, int | None]
"""The agent that answers for a host and, in a job, the number of its task."""


def first_places(plan: Plan, agents: Agents) -> dict[int, Place]:
    """Return where processes can serve at the ports that their agents reserved before their first event."""
    ports = {(agent, task): agent.facts[task].ports for agent, task in _hosts(plan, agents)}
    return _places(plan, agents, ports)


def new_places(cluster: Cluster) -> dict[int, Place]:
    """Return where processes can serve at ports that their agents reserve now, while earlier ones are in use.

    Raises:
      LaunchError: An agent has ended, or does not answer.
      HostError: A host is lost.
    """
    plan, agents = cluster.plan, cluster.own_agents
    hosts = _hosts(plan, agents)
    # Counted by the agents' events, so that a kernel that attaches later continues the numbers.
    number = 1 + max((n for agent, _ in hosts for n in agent.numbers(Reserved)), default=0)
    for agent in {agent: None for agent, _ in hosts}:
        count = max(len(ids) for (one, _), ids in hosts.items() if one is agent)
        agent.order(ReservePorts(number=number, count=count))
    reserved = answers(
        cluster,
        Reserved,
        number,
        hosts,
        within_s=plan.start_timeout_s,
        late="has reserved no ports for its processes",
    )
    return _places(plan, agents, {host: answer.ports for host, answer in reserved.items()})


def answers(
    cluster: Cluster,
    kind: type[T],
    number: int,
    hosts: Iterable[HostAgent],
    *,
    within_s: float,
    late: str,
) -> dict[HostAgent, T]:
    """Wait for the answers of agents to an order that they were sent.

    Args:
      cluster: All agents.
      kind: The type of the answers.
      number: The number of the order.
      hosts: The hosts whose agents are to answer.
      within_s: How many seconds they may take.
      late: The predicate of the error's sentence about an agent that does not answer.

    Raises:
      LaunchError: An agent does not answer, or that of this machine has ended.
      HostError: A host is lost.
    """
    deadline = time.monotonic() + within_s
    found: dict[HostAgent, T] = {}
    missing = list(hosts)
    while missing:
        check_hosts(cluster)
        check_home(cluster.own_agents.home)
        for agent, task in list(missing):
            answer = agent.answers.get((kind, task, number))
            if answer is not None:
                missing.remove((agent, task))
                found[agent, task] = answer
            elif time.monotonic() > deadline:
                host = agent.reach.name if task is None else cluster.plan.hosts[task]
                raise LaunchError(
                    f"The agent of host {host} (pid {agent.pid}) {late} within {within_s:g} s. "
                    f"{command('restart')} starts everything afresh."
                )
        if missing:
            time.sleep(POLL_SECONDS / 4)
    return found


def host_of(agents: Agents, process_id: int) -> HostAgent:
    """Return what answers for the host of one process."""
    agent = agents.of(process_id)
    return agent, process_id if isinstance(agent, JobAgent) else None


def _hosts(plan: Plan, agents: Agents) -> dict[HostAgent, list[int]]:
    """Return the process ids of each agent, or of each task of a job."""
    found: dict[HostAgent, list[int]] = {}
    for process in plan.processes:
        found.setdefault(host_of(agents, process.process_id), []).append(process.process_id)
    return found


def _places(
    plan: Plan, agents: Agents, ports: Mapping[HostAgent, Sequence[int]]
) -> dict[int, Place]:
    return {
        process_id: Place(
            address=LOOPBACK if plan.placement.on_this_machine else agent.facts[task].address,
            port=port,
        )
        for (agent, task), process_ids in _hosts(plan, agents).items()
        for process_id, port in zip(process_ids, ports[agent, task], strict=False)
    }


HOST_SECONDS = 30.0
"""Seconds a host may take to answer, if the person's `ConnectTimeout` is not shorter."""

STARTING_SECONDS = 25.0
"""Seconds a host may be silent after its first answer.

While an agent loads one large library from a cold disk or a slow network it can send nothing (see
`nbdist.agent.kernel_link`). `nbdist.launch.start.pool.LOST_SECONDS` is a little longer, so that a start's own
error comes first: it names what took too long."""


def gather(cluster: Cluster, *, progress: StartProgress) -> None:
    """Wait until every host has sent its first event, and choose where the processes meet.

    Raises:
      HostError: A host cannot be reached, does not answer, or cannot run this nbdist.
      LaunchError: The agent of this machine has ended, or does not begin.
    """
    others, preflight = cluster.agents.others, cluster.preflight
    assert preflight is not None
    if not others:
        _wait_for_home(cluster)
        cluster.warnings = preflight.judge({})
        _place(cluster)
        # There is no host to send to, but the files are noted, so that later changes are found.
        _send_files(cluster)
        return
    if cluster.plan.placement.job is not None:
        wait_for_tasks(cluster, check_host, progress=progress)
    else:
        _wait_for_hosts(cluster, progress)
    _place(cluster)
    cluster.info = info = info_by_host(cluster)
    cluster.warnings = preflight.judge(info)
    for agent in others.values():
        agent.order(Reach(targets=targets(info)))
    _send_files(cluster)


def _wait_for_hosts(cluster: Cluster, progress: StartProgress) -> None:
    others = cluster.agents.others
    deadline = time.monotonic() + min(HOST_SECONDS, cluster.plan.start_timeout_s)
    reached = -1
    while True:
        for name, agent in others.items():
            _check_with_advice(
                name, agent, cluster.plan.placement.ssh_advice, several=len(others) > 1
            )
        answered = [name for name, agent in others.items() if agent.facts]
        if len(answered) != reached:
            reached = len(answered)
            progress("reached", reached, len(others))
        if reached == len(others):
            break
        if time.monotonic() > deadline:
            name = next(name for name in others if name not in answered)
            raise HostError(
                f"Host {name} did not answer within {HOST_SECONDS:g} s: it is cut off, overloaded, or stopped, "
                f"or a command of its shell's start-up files waits. Look with {command('doctor')}.",
                host=name,
            )
        time.sleep(POLL_SECONDS)
    _wait_for_home(cluster)


def _wait_for_home(cluster: Cluster) -> None:
    """Wait until the agent of this machine has sent its first event."""
    home, limit_s = cluster.own_agents.home, cluster.plan.start_timeout_s
    while not home.facts:
        check_home(home)
        if time.monotonic() - cluster.began > limit_s:
            raise LaunchError(
                f"The engines' parent process (pid {home.pid}) did not begin within {limit_s:g} s. Give it longer "
                f"with {option('start_timeout_s')}."
            )
        time.sleep(POLL_SECONDS)


def check_home(home: AgentHandle) -> None:
    """Raise an error if the agent of this machine can no longer take part.

    Raises:
      HostError: It cannot work in its folders.
      LaunchError: It has ended.
    """
    failure = None if home.failure is None else home.failure.event
    if isinstance(failure, Refused):
        raise HostError(_refused(failure.host, home, failure), host=failure.host)
    if home.ended_at is not None and not isinstance(failure, ImportFailed):
        lines = "\n".join(home.controller_log_tail())
        raise LaunchError(
            f"The engines' parent process ended (exit code {home.poll()}).\n{lines}".rstrip()
        )


def info_by_host(cluster: Cluster) -> dict[str, HostInfo]:
    """Return the reports of agents on other machines, by the plan's name of their host."""
    agents = cluster.agents
    found: dict[str, HostInfo] = {}
    for process in cluster.plan.processes:
        facts = agents.host_info(process.process_id)
        if facts is not None:
            found.setdefault(process.host, facts)
    return found


def _send_files(cluster: Cluster) -> None:
    """Send the user's files before anything else; events of the hosts show later whether they have arrived."""
    agents = cluster.agents
    if agents.files is None:
        return
    agents.files.begin(agents.others)
    while not agents.files.written():
        for name, agent in agents.others.items():
            check_host(name, agent)
        time.sleep(POLL_SECONDS)


def check_host(name: str, agent: AgentHandle) -> None:
    """Raise an error if a host can no longer take part.

    Raises:
      HostError: The host cannot take part; the text says why, with ssh's own message if ssh failed.
      VersionError: The host has another version of nbdist.
    """
    failure = None if agent.failure is None else agent.failure.event
    if isinstance(failure, Refused):
        raise HostError(_refused(name, agent, failure), host=name)
    if isinstance(failure, OtherVersion):
        there = failure.host
        raise other_version(f"Host {there}", failure.nbdist, on=there, host=name)
    not_copied = first_failure(agent)
    if not_copied is not None:
        host, why = not_copied
        raise HostError(
            f"Host {host} could not take your files ({option('sync')}): {why}.", host=name
        )
    if agent.ended_at is not None and agent.failure is None:
        raise HostError(_ended(name, agent), host=name)
    for task, end in agent.exits.items():
        if end.because_of is not None:
            raise HostError(with_words(f"Process {task} is {end}.", end.last_lines), host=name)
    if agent.facts and agent.silence_s > STARTING_SECONDS:
        raise HostError(
            f"Host {name} has not answered for {agent.silence_s:.0f} s while the processes started: it is "
            "cut off, overloaded, or stopped.",
            host=name,
        )


def check_hosts(cluster: Cluster) -> None:
    """Raise an error if a host can no longer take part, or does not reach another host.

    Raises:
      HostError: A host cannot; the text says which, and why.
      LaunchError: The text says which host does not reach which.
    """
    for name, agent in cluster.agents.others.items():
        check_host(name, agent)
        _check_connections(cluster, name, agent)


def _check_connections(cluster: Cluster, name: str, agent: AgentHandle) -> None:
    """Raise an error if hosts cannot reach each other: they would hang in the first collective."""
    for task, (moment, answers) in agent.reached.items():
        host = name if task is None else cluster.plan.hosts[task]
        found = unreached(cluster.info, host, answers)
        # A host that has just died cannot be reached either; then its own silence is reported.
        if found is not None and cluster.own_agents.received_since(found[0], moment):
            raise LaunchError(found[1])


def _check_with_advice(name: str, agent: AgentHandle, advice: str | None, *, several: bool) -> None:
    """Check a host as `check_host` does; if it never answered, add `advice` and what to type to the error."""
    try:
        check_host(name, agent)
    except HostError as error:
        if agent.facts:
            raise
        more = [] if advice is None else [advice]
        more += (
            [f"{command('doctor')} with the same hosts looks at all of them."] if several else []
        )
        raise HostError("\n".join([str(error), *more]), host=name) from None


def _place(cluster: Cluster) -> None:
    """Assign each process to its agent, and choose where the processes meet."""
    plan, agents = cluster.plan, cluster.own_agents
    if plan.placement.job is not None:
        (job,) = agents.others.values()
        hosts = {
            p.process_id: facts.host
            for p in plan.processes
            if (facts := job.facts.get(p.process_id)) is not None
        }
        plan = cluster.plan = plan.placed(hosts)
        agents.assign({p.process_id: job for p in plan.processes})
    else:
        of = {p.process_id: agents.others.get(p.host, agents.home) for p in plan.processes}
        agents.assign(of)
    cluster.rendezvous = meet(plan, first_places(plan, agents))


def _refused(name: str, agent: AgentHandle, failure: Refused) -> str:
    folder, error = failure.folder, failure.error
    host = next((facts.host for facts in agent.facts.values()), name)
    if isinstance(agent, JobAgent):
        host = failure.host
    if failure.working:
        return (
            f"Host {host} cannot use the working folder {folder}: {error}. Name another with {option('cwd')}, "
            f"or bring your files there with {option('sync')}."
        )
    return f"Host {host} cannot keep the session's files in {folder or 'its folder for temporary files'}: {error}."


def _ended(name: str, agent: AgentHandle) -> str:
    if isinstance(agent, JobAgent):
        return job_ended(agent)
    code, lines = agent.poll(), agent.last_words()
    if agent.facts:
        return with_words(f"Host {name} was lost while the processes started.", lines)
    python = agent.reach.command[-1].split()[0]
    if lacks_nbdist(lines):
        text = install_nbdist(
            f"Host {name}: {python} there", python, host=name, otherwise=other_python()
        )
        return with_words(text, lines)
    assert agent.reach.host is not None and agent.reach.options is not None
    finding = refused(agent.reach.host, agent.reach.options, code, "\n".join(lines))
    return f"Host {name}: {finding.what}\n{do_text(finding.do)}"
