"""A person's action on a widget, repeated on the processes' widgets: by all at the same time, as a cell."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping

from nbdist.contract.calls.arrays import UseWidget
from nbdist.errors import SessionError
from nbdist.quantities import processes_text
from nbdist.rules import Rules
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.expression import ask_all_workers, ask_some
from nbdist.spelling import command
from nbdist.widgets import Event


def deliver(engines: EngineGroup, event: Event, *, busy: Mapping[int, int], rules: Rules) -> None:
    """Repeat an action on the processes; return when they have done it.

    The action may compute, so all take part in the proof after it.

    Args:
      engines: The processes.
      event: The action.
      busy: The number of the cell that each busy process runs.
      rules: The session's rules.

    Raises:
      SessionError: A process runs a cell, or they are not in step; nothing was done.
      NbdistError: The error that a process raised.
    """
    ids = sorted(event.models)
    inside = [p for p in sorted({*ids, *engines.facts.workers}) if p in busy]
    if inside:
        raise SessionError(
            f"{processes_text(inside)} cannot do what the widget asks: {engines.reports.doing(inside[0])}. Use "
            f"the widget again after the end of the cell; {command('sync')} waits for it, "
            f"{command('interrupt')} ends it."
        )
    call = UseWidget(
        models={str(p): model for p, model in event.models.items()},
        data=dict(event.data),
        binary=tuple(base64.b64encode(one).decode("ascii") for one in event.buffers),
    )
    if not engines.proves:
        ask_some(engines, call, ids, timeout_s=math.inf)
        return
    if engines.facts.out_of_step:
        raise SessionError(
            f"What the widget does may compute, and the processes are not in step{engines.facts.why_and_advice}"
        )
    ask_all_workers(engines, call, wanted=ids, timeout_s=math.inf, rules=rules)
