"""Processes that did not come back from an interrupt, and may do so by themselves.

Python sees no signal while XLA compiles, which takes minutes for a large model: the interrupt takes effect after
that. The compiled program may run first, and then wait for data that the others never send.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from nbdist.contract.asides import Aside
from nbdist.contract.limits import SILENT_SECONDS
from nbdist.quantities import processes_text
from nbdist.session.engine_group import EngineGroup

LOOK_SECONDS = 0.05
"""How often to look."""

FREE_SECONDS = 1.0
"""How often to cut collectives of processes that have compiled and wait in one."""

REPORT_SECONDS = 1.0
"""How long a process may take to report that it compiles, or that it has left its cell."""

BACK_SECONDS = 5.0
"""How long a stuck process may take to come back from one more interrupt, or from the end of its compilation."""

SAY_SECONDS = 1.0
"""How long to wait in silence."""


def not_back(
    engines: EngineGroup,
    *,
    say: Callable[[str], None],
    interrupted: bool = False,
    until: float | None = None,
) -> set[int]:
    """Wait for the stuck processes that compile, and a moment for the others; return those that are not back.

    Args:
      engines: Processes of which some may not have come back from an interrupt.
      say: Gets one line when it takes longer.
      interrupted: Whether to interrupt them once more, and to wait for compiling processes even if another does
        not come back.
      until: When to stop waiting for compiling processes (monotonic clock); None: as long as they compile.

    Raises:
      TimeoutError: Some still compiled at `until`.
      KeyboardInterrupt: A person no longer waits; nothing has changed.
    """
    left = _stuck(engines)
    if left and interrupted:
        engines.interrupt(sorted(left))
    began = freed = time.monotonic()
    within_s = BACK_SECONDS if interrupted else REPORT_SECONDS
    given_up = dict.fromkeys(left, began + within_s)
    said = False
    while left := _stuck(engines):
        now = time.monotonic()
        compiling = {p for p in left if _compiles(engines, p)}
        given_up.update(dict.fromkeys(compiling, now + BACK_SECONDS))
        hopeless = {p for p in left if now >= given_up.setdefault(p, now + within_s)}
        # Whoever asks for a recovery has those ended that are returned.
        if hopeless and (hopeless == left or not interrupted):
            return left
        if until is not None and now > until:
            raise TimeoutError(f"{processes_text(left)} still compiling what was interrupted.")
        if left - compiling and now - freed >= FREE_SECONDS:
            freed = now
            engines.link.agents.ask(Aside.FREE, sorted(left - compiling))
        if compiling and not said and now - began >= SAY_SECONDS:
            said = True
            say(
                f"{processes_text(compiling)} still compiling what was interrupted, and waited for; an interrupt "
                "ends the wait and changes nothing"
            )
        time.sleep(LOOK_SECONDS)
    return set()


def _stuck(engines: EngineGroup) -> set[int]:
    """Return the stuck processes that live and are not back yet."""
    engines.health.take_back()
    return set(engines.facts.stuck - engines.facts.lost.keys())


def _compiles(engines: EngineGroup, process_id: int) -> bool:
    activity = engines.monitor.activity(process_id)
    reports = engines.monitor.silence(process_id) < SILENT_SECONDS
    return reports and activity is not None and activity.state == "compiling"
