"""The processes' offers of one value, by which it is compared and pulled."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from nbdist.contract.calls.call import Call
from nbdist.contract.calls.values import ValueOffer
from nbdist.launch.start.request import Request
from nbdist.values.flow import Answers, Processes, ask_each, send

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """A value that processes have; each process has described it.

    Attributes:
      processes: The processes to ask.
      by_process: Each process's description.
      token: The token under which they keep it.
      expression: The expression for the value.
      timeout_s: How long an answer may take, and how long nothing may move.
    """

    processes: Processes
    by_process: Mapping[int, ValueOffer]
    token: str
    expression: str
    timeout_s: float

    def send(self, process_id: int, call: Call[A]) -> Request[A]:
        """Send one process a call about its offer."""
        return send(self.processes, process_id, call)

    def ask(self, call: Call[A], process_ids: Iterable[int]) -> Answers[A]:
        """Return the answers of several processes to the same call; raise as `ask_each` does."""
        return self.answers({p: self.send(p, call) for p in process_ids})

    def answers(self, asked: Mapping[int, Request[A]]) -> Answers[A]:
        """Wait for answers to sent requests; raise as `ask_each` does."""
        return ask_each(self.processes, asked, timeout_s=self.timeout_s)
