"""What is asked of processes past their main threads, so that they answer in the middle of a cell, too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbdist.contract.asides import Aside
from nbdist.errors import SessionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan
from nbdist.launch.start.agents import Agents
from nbdist.session.asking import Asking
from nbdist.spelling import command

STACK_SECONDS = 3.0
"""How long processes may take to read their stacks, and to note that they are to stop."""

NATIVE_SECONDS = 25.0
"""How long processes may take to have py-spy read their stacks."""

REPLIES = 10
"""So often a process is sent a line that it has not said to have."""


class Asides:
    """Questions to the processes of one session, by way of their agents.

    Args:
      agents: Of the processes.
      plan: Of the session.
      busy: Whether a process has said of itself that it is in a cell.
    """

    def __init__(self, agents: Agents, plan: Plan, busy: Callable[[int], bool]) -> None:
        self._agents = agents
        self._plan = plan
        self._busy = busy
        self._asking = Asking(agents.ask)
        self.put = self._asking.put

    def digests(self, process_ids: Sequence[int], code: str) -> dict[int, dict[str, str]] | None:
        """What must be equal before a cell, in short; None where a process is busy or does not answer soon."""
        if not self._agents.reaches_past_main_threads or any(map(self._busy, process_ids)):
            return None
        found = self._asking.ask(Aside.COMPARE, process_ids, code=code)
        return dict(found) if len(found) == len(process_ids) else None

    def stop_at_step(self, process_ids: Sequence[int], run: int) -> dict[int, int | None]:
        """Asks processes to leave a cell before the same step; how many steps have begun on each that answers.

        None stands for one in which the cell does not run.

        Raises:
          SessionError: Somebody else has started these processes, or they cannot agree on a step.
        """
        if not self._agents.reaches_past_main_threads:
            raise SessionError(
                "These processes were not started by nbdist: nothing reaches them while they run a cell. "
                f"{command('interrupt')} interrupts it."
            )
        framework = framework_named(self._plan.framework)
        if not framework.stops_at_steps:
            raise SessionError(
                "The processes agree on a common step through JAX's coordinator, but this session computes with "
                f"{framework.title}. {command('interrupt')} interrupts the cell."
            )
        found = self._asking.ask(Aside.STOP, process_ids, within_s=STACK_SECONDS, run=run)
        return {p: answer["steps"] for p, answer in found.items()}

    def reply(self, process_id: int, number: int, reply: Mapping[str, Any]) -> bool:
        """Sends a process the reply to a question of its debugger; see `nbdist.engine.cell.debugger.lines`.

        Returns:
          Whether the process has taken it; it does once, however often it is sent.
        """
        for _ in range(REPLIES):
            found = self._asking.ask(
                Aside.LINE, [process_id], within_s=STACK_SECONDS, to=number, reply=dict(reply)
            )
            if found:
                return bool(found[process_id]["taken"])
        return False

    def stacks(
        self, process_ids: Sequence[int], *, native: bool = False
    ) -> dict[int, dict[str, Any]]:
        """The threads of processes, also of busy ones; only of those that answer soon.

        Returns:
          By process `threads`, or with `native` that, as `nbdist.engine.cell.native` answers it.

        Raises:
          SessionError: Somebody else has started these processes.
        """
        if not self._agents.reaches_past_main_threads:
            raise SessionError(
                "These processes were not started by nbdist: nothing reaches them while they run a cell, and "
                "their stacks cannot be read."
            )
        limit = NATIVE_SECONDS if native else STACK_SECONDS
        return self._asking.ask(Aside.STACK, process_ids, within_s=limit, native=native)
