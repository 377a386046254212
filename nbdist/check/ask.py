"""Asking the processes of a cell, all at once: for digests first, for facts only where those differ."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from nbdist.check.compare import differences
from nbdist.check.words import busy_text, differences_text
from nbdist.contract.agreement import Facts
from nbdist.contract.calls.engine import Agreement, AskAgreement
from nbdist.contract.snapshot import Activity
from nbdist.errors import AgreementError
from nbdist.launch.start.request import Request

ANSWER_SECONDS = 5.0
"""How long all processes together may take to answer; an idle one takes milliseconds."""


class Asks(Protocol):
    """Sends a request to one process; see `nbdist.launch.start.request.ask`."""

    def __call__(self, process_id: int, call: AskAgreement) -> Request[Agreement]:
        """Does not wait."""


def refuse_disagreement(
    ask: Asks,
    targets: Sequence[int],
    code: str,
    *,
    hosts: Mapping[int, str],
    activity: Callable[[int], Activity | None],
    digests: Callable[[Sequence[int], str], Mapping[int, Mapping[str, str]] | None] = lambda *_: (
        None
    ),
    timeout_s: float = ANSWER_SECONDS,
) -> None:
    """Compares what must be equal on all targets before they run a cell; uses no collective.

    Args:
      ask: Sends a request to a process.
      targets: Those that are to run the cell in step; one alone has nobody to differ from.
      code: The cell.
      hosts: Host names by process id.
      activity: The newest activity of a process, for one that does not answer.
      digests: A faster question for their digests; None where not all can be asked so.
      timeout_s: For all answers together.

    Raises:
      AgreementError: Something differs, or a process is busy; nothing of the cell has run.
      GoneError: A process has ended.
    """
    if len(targets) < 2:
        return
    deadline = time.monotonic() + timeout_s

    def answers(topics: tuple[str, ...] | None) -> dict[int, Agreement]:
        asked = {p: ask(p, AskAgreement(code=code, topics=topics)) for p in targets}
        for request in asked.values():
            request.wait(max(0.0, deadline - time.monotonic()))
        busy = [p for p, request in asked.items() if not request.ready()]
        if busy:
            doing = {p: activity(p) for p in busy}
            raise AgreementError(busy_text(doing, hosts, timeout_s))
        return {p: request.get()[0] for p, request in asked.items()}

    found = digests(targets, code) or {p: one.digests or {} for p, one in answers(None).items()}
    first = found[targets[0]]
    differing = tuple(t for t in first if len({one.get(t) for one in found.values()}) > 1)
    if differing:
        what = differences({p: one.facts or Facts() for p, one in answers(differing).items()})
        if what:
            raise AgreementError(differences_text(what, hosts))
