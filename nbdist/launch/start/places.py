"""Places where the processes of our agents can serve: at ports that their agents reserve for them."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from nbdist.contract.orders import ReservePorts
from nbdist.errors import LaunchError
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.agents.job_agent import JobAgent
from nbdist.launch.model.plan import Plan
from nbdist.launch.model.progress import POLL_SECONDS
from nbdist.launch.model.rendezvous import Place
from nbdist.launch.start.agents import Agents
from nbdist.machine.ports import LOOPBACK
from nbdist.spelling import command

Host = tuple[AgentHandle, int | None]
"""An agent, and the number of one of its tasks if each task has its own host."""


def first_places(plan: Plan, agents: Agents) -> dict[int, Place]:
    """Return places at the ports that the agents reserved before their first event."""
    ports = {(agent, task): agent.facts[task].ports for agent, task in _hosts(plan, agents)}
    return _places(plan, agents, ports)


def new_places(plan: Plan, agents: Agents, *, check: Callable[[], None]) -> dict[int, Place]:
    """Return places at ports that the agents reserve now, while the earlier ones are still in use.

    Args:
      plan: Whose processes are to serve anew.
      agents: Their agents.
      check: Called while an agent has not answered; raises if it never will.

    Raises:
      LaunchError: An agent does not answer.
    """
    numbers = {}
    hosts = _hosts(plan, agents)
    for agent in {agent: None for agent, _ in hosts}:
        # Counted by the agent's events, so that a kernel that attaches later continues the numbers.
        numbers[agent] = 1 + max((number for _, number in agent.reserved), default=0)
        count = max(len(its) for (one, _), its in hosts.items() if one is agent)
        agent.order(ReservePorts(number=numbers[agent], count=count))
    ports = {}
    deadline = time.monotonic() + plan.start_timeout_s
    for (agent, task), its in hosts.items():
        while (task, numbers[agent]) not in agent.reserved:
            check()
            if time.monotonic() > deadline:
                raise LaunchError(
                    f"The agent of host {plan.hosts[its[0]]} (pid {agent.pid}) has reserved no ports for its "
                    f"processes within {plan.start_timeout_s:g} s. {command('restart')} starts everything afresh."
                )
            time.sleep(POLL_SECONDS / 4)
        ports[agent, task] = agent.reserved[task, numbers[agent]]
    return _places(plan, agents, ports)


def _hosts(plan: Plan, agents: Agents) -> dict[Host, list[int]]:
    """Return the process ids of each agent, or of each task of a job."""
    found: dict[Host, list[int]] = {}
    for process in plan.processes:
        agent = agents.of(process.process_id)
        task = process.process_id if isinstance(agent, JobAgent) else None
        found.setdefault((agent, task), []).append(process.process_id)
    return found


def _places(plan: Plan, agents: Agents, ports: Mapping[Host, Sequence[int]]) -> dict[int, Place]:
    return {
        process_id: Place(
            address=LOOPBACK if plan.placement.on_this_machine else agent.facts[task].address,
            port=port,
        )
        for (agent, task), its in _hosts(plan, agents).items()
        for process_id, port in zip(its, ports[agent, task], strict=False)
    }
