"""Hosts that do not answer for a moment: only when they do, or are given up, is it known what is left."""

from __future__ import annotations

import time
from collections.abc import Callable

from nbdist.launch.start.agent_pool import LOST_SECONDS
from nbdist.quantities import names_text, seconds_text
from nbdist.session.engine_group import EngineGroup

LOOK_SECONDS = 0.05
"""How often is looked."""

SAY_SECONDS = 1.0
"""How long is waited without a word."""

SLACK_SECONDS = 5.0
"""What it may take until one that is given up is known to be."""


def until_known(engines: EngineGroup, *, say: Callable[[str], None]) -> None:
    """Waits until no host is silent; an interrupt ends the wait.

    Args:
      engines: The processes.
      say: Gets one line when it takes longer.
    """
    began = time.monotonic()
    said = False
    while engines.facts.silent and not engines.facts.cut_off and not engines.hurry.is_set():
        waited = time.monotonic() - began
        if waited >= LOST_SECONDS + SLACK_SECONDS:
            return
        if waited >= SAY_SECONDS and not said:
            said = True
            say(
                f"host {names_text(sorted(engines.facts.silent))} does not answer: waited for until it does, or "
                f"is given up after {seconds_text(LOST_SECONDS)} of silence"
            )
        time.sleep(LOOK_SECONDS)
