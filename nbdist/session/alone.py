"""Small questions that one idle process answers alone; whether an answer has computed is seen to afterwards."""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

from nbdist.contract.calls.call import Call
from nbdist.errors import GoneError, NbdistError, TurnError
from nbdist.launch.start.request import Request
from nbdist.session.engine_group import EngineGroup

A = TypeVar("A")


class AskedAlone:
    """What one of the processes was asked, such as a completion.

    Args:
      engines: The processes.
    """

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines
        self._requests: list[Request[Any]] = []

    def ask(self, call: Call[A], *, timeout_s: float) -> A | None:
        """Asks the lowest idle process; None when none is idle or none answers in time.

        It may compute: also where another kernel has its turn, nobody answers.
        """
        try:
            with self._engines.turn.taken(timeout_s=timeout_s, say=str):  # silent: nobody has asked
                return self._ask(call, timeout_s=timeout_s)
        except TurnError:
            return None

    def _ask(self, call: Call[A], *, timeout_s: float) -> A | None:
        engines = self._engines
        for process_id in sorted(engines.plan.hosts):
            if process_id in engines.facts.lost or engines.reports.busy(process_id):
                continue
            request = engines.send(process_id, call)
            self._requests = [*self._requests, request]
            try:
                return request.get(timeout_s)[0]
            except (TimeoutError, GoneError):
                return None
        return None

    @property
    def unseen(self) -> bool:
        """Whether one may have computed, and `computed` has not said so."""
        return any(not r.ready() or r.computed for r in self._requests)

    def computed(self) -> bool:
        """Whether one that was asked something has used devices of others, which took no part; says so once."""
        answered = [request for request in self._requests if request.ready()]
        self._requests = [r for r in self._requests if r not in answered]
        for request in answered:
            with contextlib.suppress(NbdistError):  # one that came too late for whoever asked
                request.get()
        return any(request.computed for request in answered)
