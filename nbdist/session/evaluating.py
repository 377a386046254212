"""Expressions of the processes: one process evaluates a mere name, all evaluate whatever may compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from nbdist.contract.calls.evaluating import EvaluatingExpression
from nbdist.contract.calls.values import Offer
from nbdist.errors import SessionError
from nbdist.rules import Rules
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.expression import Answers, ask_all_workers, ask_some, is_name
from nbdist.session.running import Cells
from nbdist.spelling import command

A = TypeVar("A")


class Evaluation:
    """Asks processes that are in no cell for values.

    Args:
      engines: The processes.
      cells: The session's cells; an expression waits until the ends of cells are handled.
      rules: The session's rules.
    """

    def __init__(self, engines: EngineGroup, cells: Cells, rules: Rules) -> None:
        self._engines = engines
        self._cells = cells
        self._rules = rules

    def first(self, call: EvaluatingExpression[A], *, timeout_s: float) -> A:
        """Return the lowest process's answer to an expression, as `of`."""
        first = self._engines.choice.targets(None)[:1]
        answers = self.of(call, first, timeout_s=timeout_s)
        return answers[first[0]][0]

    def of(
        self, call: EvaluatingExpression[A], ids: Sequence[int], *, timeout_s: float
    ) -> Answers[A]:
        """Return the processes' answers to an expression; all evaluate it together where it may compute.

        Args:
          call: With the expression.
          ids: The processes whose answers are wanted.
          timeout_s: How many seconds they may take.

        Raises:
          SessionError: A process is busy, or did not answer in time; or they are not in step, and it may compute;
            or it may use values that were copied from another process, which is said once.
          NbdistError: The error that a process raised.
        """
        engines = self._engines
        together = engines.proves and not is_name(call.expression)
        with engines.turn.taken(timeout_s=timeout_s):
            if together:
                self._cells.brought_in_step(call.expression)
            else:
                self._cells.say_ends()
            self.refuse_while_busy(ids)
            if together or isinstance(call, Offer):
                # A value that is brought here is used.
                self._cells.refuse_unsure(f"_ = ({call.expression})")
            if not together:
                return ask_some(engines, call, ids, timeout_s=timeout_s)
            return ask_all_workers(
                engines, call, wanted=ids, timeout_s=timeout_s, rules=self._rules
            )

    def refuse_while_busy(self, ids: Sequence[int]) -> None:
        """Raise if one of these processes is in a cell that was sent to it.

        Raises:
          SessionError: One is; says in which.
        """
        busy = self._cells.background.busy()
        inside = next((p for p in ids if p in busy), None)
        if inside is not None:
            raise SessionError(
                f"{self._engines.reports.doing(inside)}: its values are available when that has ended. "
                f"{command('sync')} waits for it, {command('stop_at_step')} or {command('interrupt')} ends it."
            )
