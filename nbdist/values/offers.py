"""What processes offer of one value: it is compared and pulled by these."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.launch.start.request import Request
from nbdist.values.flow import Answers, Processes, ask_each, send


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """A value that processes have, each described by it.

    Attributes:
      processes: Who is asked.
      by_process: What each has described; see `nbdist.engine.values.outgoing.Outgoing.describe`.
      token: Under which they keep it.
      expression: How the value was named.
      timeout_s: How long an answer may take, and how long nothing may move.
    """

    processes: Processes
    by_process: Mapping[int, Mapping[str, Any]]
    token: str
    expression: str
    timeout_s: float

    def send(self, process_id: int, name: str, **arguments: Any) -> Request:
        """Has one process do something with what it offers."""
        return send(self.processes, process_id, name, token=self.token, **arguments)

    def ask(self, name: str, process_ids: Iterable[int], **arguments: Any) -> Answers:
        """The answers of several processes to the same request; raises what `ask_each` does."""
        return self.answers({p: self.send(p, name, **arguments) for p in process_ids})

    def answers(self, asked: Mapping[int, Request]) -> Answers:
        """Waits for what was sent; raises what `ask_each` does."""
        return ask_each(self.processes, asked, timeout_s=self.timeout_s)
