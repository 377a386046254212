"""The prompts of one cell: which process is asked next, by whom, and how the line gets there."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Protocol

from nbdist.cells.person import ask_person
from nbdist.contract.iopub import Prompt
from nbdist.contract.questions import LineReply, TypedLine

SETTLE_SECONDS = 0.2
"""How long after the first prompt others at the same breakpoint may come: the lowest process is asked first."""

COMMAND_SECONDS = 1.0
"""How long a process that got a line may take to ask again, before another process is asked."""


class Asks(Protocol):
    """The part of `nbdist.cells.execution.Execution` that `Prompts` needs."""

    def prompts(self) -> Mapping[int, Prompt]:
        """Return the prompts of processes in the cell, by process id."""

    def wants(self, process_id: int, number: int) -> bool:
        """Return whether a process still waits for the answer to this question; from any thread."""

    def give(self, process_id: int, prompt: Prompt, send: Callable[[], bool]) -> bool:
        """Send a reply; return whether it was taken."""

    @property
    def commanded(self) -> float | None:
        """Return when a process got the line it has not gone on from (monotonic clock); None: there is none."""


class Prompts:
    """Asks the person who waits for a cell, one process at a time.

    Args:
      execution: The cell's execution.
      reply: Sends a process the reply to a question of this number; returns whether it was taken.
      show: Brings all output so far to the screen.
      repeat: Shows the typed line behind the output of the process.
      ask: Asks the person; see `nbdist.cells.person.ask_person`.
    """

    def __init__(
        self,
        execution: Asks,
        *,
        reply: Callable[[int, int, LineReply], bool],
        show: Callable[[], None],
        repeat: Callable[[int, str], None],
        ask: Callable[[str, Callable[[], bool]], LineReply | None] = ask_person,
    ) -> None:
        self._execution = execution
        self._reply = reply
        self._show = show
        self._repeat = repeat
        self._ask = ask
        self._since: float | None = None

    def answer(self) -> None:
        """Ask the person for one line if that is due, and send it.

        Raises:
          KeyboardInterrupt: The person pressed interrupt.
        """
        prompts = self._execution.prompts()
        if not self._due(prompts, time.monotonic()):
            return
        process_id = min(prompts)
        prompt = prompts[process_id]
        self._show()
        reply = self._ask(
            f"process {process_id} {prompt.text}",
            lambda: self._execution.wants(process_id, prompt.number),
        )
        if reply is None:
            return
        if isinstance(reply, TypedLine):
            self._repeat(process_id, f"{prompt.text}{reply.text}\n")
        self._execution.give(
            process_id, prompt, lambda: self._reply(process_id, prompt.number, reply)
        )

    def _due(self, prompts: Mapping[int, Prompt], now: float) -> bool:
        commanded = self._execution.commanded
        if not prompts and commanded is None:
            self._since = None
        if not prompts or (commanded is not None and now - commanded < COMMAND_SECONDS):
            return False
        self._since = self._since or now
        return now - self._since >= SETTLE_SECONDS
