"""Replacement of ipyparallel's controller after its end, while the processes keep all they hold."""

from __future__ import annotations

import time
from collections.abc import Callable, Set
from dataclasses import replace

from nbdist.contract.asides import Abandon, Free, Repeat
from nbdist.errors import LaunchError
from nbdist.launch.start.replace import restart_controller, unanswered
from nbdist.notation import processes_text, seconds_text
from nbdist.session.asking import LOOK_SECONDS
from nbdist.session.engine_group import EngineGroup

REPORT_SECONDS = 5.0
"""Seconds processes may take to report through the new controller; they reconnect within a tenth of a second."""

ANSWER_SECONDS = 20.0
"""Seconds an idle process may take to answer through the new controller."""

BACK_SECONDS = 5.0
"""Seconds a process may take to come back from the interrupt of a cell whose answer is lost."""

AGAIN_SECONDS = 1.0
"""How often such a process is interrupted again, and freed from a collective that others have left."""

TRIES = 3
"""How many controllers are started in succession, if each one ends at once."""

ENDED = "the controller of ipyparallel has ended"


def bring_back(engines: EngineGroup, *, say: Callable[[str], None]) -> str | None:
    """Start the controller again if it has ended.

    Processes in the middle of a cell are interrupted, since the cell's answer is lost.

    Args:
      engines: The processes.
      say: Called with a line when the controller has been started again.

    Returns:
      Why the processes cannot be asked for anything; None if they can.
    """
    began, first = time.monotonic(), engines.lost_controller
    for _ in range(TRIES):
        if engines.lost_controller is None:
            break
        why = _start_another(engines)
        if why is not None:
            engines.cut_off()
            return f"{ENDED}, and {why}"
    if engines.lost_controller is not None:
        engines.cut_off()
        return f"{ENDED}, and so has each of {TRIES} that were started in its place"
    if first is not None:
        say(
            f"ipyparallel's controller {replace(first, because_of=None)}: another took its place after "
            f"{seconds_text(time.monotonic() - began)}"
        )
    return None


def _start_another(engines: EngineGroup) -> str | None:
    """Return why processes do not answer through a new controller; None if they do, or it has ended as well."""
    try:
        restart_controller(engines.cluster)
    except LaunchError as error:
        return str(error)
    engines.reconnected()
    _until_reported(engines)
    _until_back(engines)
    idle = engines.plan.hosts.keys() - engines.cluster.exits.keys() - engines.facts.stuck
    silent = unanswered(engines.cluster, idle, within_s=ANSWER_SECONDS)
    if silent:
        return f"{processes_text(silent)} did not answer when it was started again"
    return None


def _until_reported(engines: EngineGroup) -> None:
    """Wait until all processes have reported, since their last reports may have been lost."""
    began = time.monotonic()

    def silent() -> list[int]:
        passed = time.monotonic() - began
        there = engines.plan.hosts.keys() - engines.cluster.exits.keys()
        return [p for p in sorted(there) if engines.monitor.silence(p) > passed]

    while (left := silent()) and time.monotonic() - began < REPORT_SECONDS:
        engines.cluster.agents.ask(Repeat(), left)
        time.sleep(LOOK_SECONDS)


def _until_back(engines: EngineGroup) -> None:
    """Interrupt the processes that are in a cell; count those that do not come back as stuck."""
    began = asked = time.monotonic()
    inside = _inside(engines)
    if inside:
        engines.interrupt(sorted(inside))
    while inside and time.monotonic() - began < BACK_SECONDS:
        time.sleep(LOOK_SECONDS)
        inside = _inside(engines)
        if inside and time.monotonic() - asked >= AGAIN_SECONDS:
            asked = time.monotonic()
            engines.interrupt(sorted(inside))
            for what in (Abandon(), Free()):
                engines.cluster.agents.ask(what, sorted(inside))
    if inside:
        engines.health.stuck(inside)


def _inside(engines: EngineGroup) -> Set[int]:
    there = engines.plan.hosts.keys() - engines.cluster.exits.keys()
    return {p for p in there if engines.reports.busy(p)}
