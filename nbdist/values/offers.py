"""What processes offer of one value: it is compared and pulled by these."""

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
    """A value that processes have, each described by it.

    Attributes:
      processes: Who is asked.
      by_process: What each has described.
      token: Under which they keep it.
      expression: How the value was named.
      timeout_s: How long an answer may take, and how long nothing may move.
    """

    processes: Processes
    by_process: Mapping[int, ValueOffer]
    token: str
    expression: str
    timeout_s: float

    def send(self, process_id: int, call: Call[A]) -> Request[A]:
        """Has one process do something with what it offers."""
        return send(self.processes, process_id, call)

    def ask(self, call: Call[A], process_ids: Iterable[int]) -> Answers[A]:
        """The answers of several processes to the same call; raises what `ask_each` does."""
        return self.answers({p: self.send(p, call) for p in process_ids})

    def answers(self, asked: Mapping[int, Request[A]]) -> Answers[A]:
        """Waits for what was sent; raises what `ask_each` does."""
        return ask_each(self.processes, asked, timeout_s=self.timeout_s)
