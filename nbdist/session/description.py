"""The text of a start for a person: one line, and remarks below it."""

from __future__ import annotations

from collections.abc import Iterable

from nbdist.launch.model.framework import framework_named
from nbdist.quantities import count_text, seconds_text
from nbdist.session.engine_group import EngineGroup


def describe(engines: EngineGroup, came: str) -> str:
    """Return one line: processes, hosts, devices, and how long the start took.

    Args:
      engines: The processes.
      came: `ready` for processes that were started, `attached` for those that ran already.
    """
    plan = engines.plan
    hosts = set(plan.hosts.values())
    where = engines.host_text(hosts.pop()) if len(hosts) == 1 else count_text(len(hosts), "host")
    chosen = "" if plan.platform_chosen else " (chosen automatically)"
    computes = framework_named(plan.framework).summary(plan, engines.answers)
    devices = (
        f"{computes}{chosen}"
        if computes is not None
        else f"platform {plan.platform}{chosen}, not initialized"
    )
    version = next(iter(engines.answers.values())).version
    named = f"{plan.framework} {version}" if version else plan.framework
    return (
        f"{count_text(len(plan.processes), 'process')} on {where}, {devices}, "
        f"{named}, {came} in {seconds_text(engines.seconds_to_start)}"
    )


def remarks(engines: EngineGroup, brought: Iterable[str]) -> list[str]:
    """Return remarks about a start that a person must read, each sentence once.

    Args:
      engines: The processes.
      brought: What the start has done with the user's files.
    """
    found = [f"{one.host}: {one.what}. {one.do}" for one in engines.link.warnings]
    found = [*engines.plan.placement.remarks, *brought, *found]
    return [*found, *framework_named(engines.plan.framework).remarks(engines.plan, engines.answers)]
