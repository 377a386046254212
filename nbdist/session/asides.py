"""Questions to processes past their main threads, so that they also answer in the middle of a cell."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nbdist.contract.questions import (
    CompareBefore,
    Digests,
    GiveLine,
    LineReply,
    LineTaken,
    NativeStacks,
    ReadStacks,
    StepsBegun,
    StopAtStep,
    Threads,
)
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
"""How often a line is sent to a process that does not confirm it."""


class Asides:
    """Questions to the processes of one session, through their agents.

    Args:
      agents: The processes' agents.
      plan: The session's plan.
      busy: Returns whether a process reports that it is in a cell.
    """

    def __init__(self, agents: Agents, plan: Plan, busy: Callable[[int], bool]) -> None:
        self._agents = agents
        self._plan = plan
        self._busy = busy
        self._asking = Asking(agents.ask)
        self.put = self._asking.put

    def digests(self, process_ids: Sequence[int], code: str) -> dict[int, Mapping[str, str]] | None:
        """Return digests of what must be equal before a cell; None if a process is busy or slow to answer."""
        if not self._agents.reaches_past_main_threads or any(map(self._busy, process_ids)):
            return None
        found = self._asking.ask(CompareBefore(code=code), process_ids, Digests)
        if len(found) < len(process_ids):
            return None
        return {p: answer.digests for p, answer in found.items()}

    def stop_at_step(self, process_ids: Sequence[int], run: int) -> dict[int, int | None]:
        """Ask processes to leave a cell before the same step; return the steps begun on each that answers.

        None stands for a process on which the cell does not run.

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
        found = self._asking.ask(
            StopAtStep(run=run), process_ids, StepsBegun, within_s=STACK_SECONDS
        )
        return {p: answer.steps for p, answer in found.items()}

    def reply(self, process_id: int, number: int, reply: LineReply) -> bool:
        """Send a process the reply to a question of its debugger; see `nbdist.engine.cell.debugger.lines`.

        Returns:
          Whether the process has taken it; it takes it once, however often it is sent.
        """
        for _ in range(REPLIES):
            found = self._asking.ask(
                GiveLine(to=number, reply=reply), [process_id], LineTaken, within_s=STACK_SECONDS
            )
            if found:
                return found[process_id].taken
        return False

    def stacks(self, process_ids: Sequence[int]) -> dict[int, Threads]:
        """Return the threads of the processes that answer soon, also of busy ones.

        Raises:
          SessionError: Somebody else has started these processes.
        """
        self._refuse_out_of_reach()
        what = ReadStacks(native=False)
        return self._asking.ask(what, process_ids, Threads, within_s=STACK_SECONDS)

    def native_stacks(self, process_ids: Sequence[int]) -> dict[int, NativeStacks]:
        """Do as `stacks`, with the frames of C and C++, as py-spy reads them.

        Raises:
          SessionError: Somebody else has started these processes.
        """
        self._refuse_out_of_reach()
        what = ReadStacks(native=True)
        return self._asking.ask(what, process_ids, NativeStacks, within_s=NATIVE_SECONDS)

    def _refuse_out_of_reach(self) -> None:
        if not self._agents.reaches_past_main_threads:
            raise SessionError(
                "These processes were not started by nbdist: nothing reaches them while they run a cell, and "
                "their stacks cannot be read."
            )
