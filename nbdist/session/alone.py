"""Small questions that one idle process answers alone; sees afterwards whether an answer has computed."""

from __future__ import annotations

import contextlib
from typing import Any, TypeVar

from nbdist.contract.calls.call import Call
from nbdist.errors import GoneError, NbdistError, TurnError
from nbdist.launch.start.request import Request
from nbdist.session.engine_group import EngineGroup

A = TypeVar("A")


class AskedAlone:
    """Questions to a single process, such as a completion."""

    def __init__(self, engines: EngineGroup) -> None:
        self._engines = engines
        self._requests: list[Request[Any]] = []

    def ask(self, call: Call[A], *, timeout_s: float) -> A | None:
        """Ask the lowest idle process; return None when none is idle or none answers in time.

        The answer may compute, so nobody answers either while another kernel has its turn.
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
        """Return whether an asked process may have computed, and `computed` has not said so."""
        return any(not r.ready() or r.computed for r in self._requests)

    def computed(self) -> bool:
        """Return whether an asked process used devices of others that took no part; says so once."""
        answered = [request for request in self._requests if request.ready()]
        self._requests = [r for r in self._requests if r not in answered]
        for request in answered:
            with contextlib.suppress(NbdistError):  # one that came too late for whoever asked
                request.get()
        return any(request.computed for request in answered)
