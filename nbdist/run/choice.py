"""Which processes a cell runs on, and what must be said before it does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from nbdist.errors import SessionError, TargetError
from nbdist.quantities import processes_text
from nbdist.run.facts import Facts
from nbdist.run.failure import RESTART
from nbdist.snapshot import Activity
from nbdist.targets import parse

Targets = str | Sequence[int] | None


class Choice:
    """Reads target words for one session.

    Args:
      hosts: Host names by process id.
      facts: Answers what is known of the processes now.
      activity: The newest activity of a process.
    """

    def __init__(
        self,
        hosts: Mapping[int, str],
        facts: Callable[[], Facts],
        activity: Callable[[int], Activity | None],
    ) -> None:
        self._hosts = hosts
        self._facts = facts
        self._activity = activity
        self._warned_subset = False

    def targets(self, on: Targets) -> tuple[int, ...]:
        """The processes that `on` names; by default all that can take a cell.

        Raises:
          TargetError: No such process, or one that is gone or stuck.
          SessionError: None is left.
        """
        if on is None:
            facts = self._facts()
            chosen = tuple(
                p for p in sorted(self._hosts) if p not in facts.lost and p not in facts.stuck
            )
            if not chosen:
                raise SessionError(f"All processes are gone or stuck. {RESTART}")
            return chosen
        chosen = parse(on if isinstance(on, str) else ",".join(map(str, on)), self._hosts)
        for process_id in chosen:
            self._refuse_unable(process_id)
        return chosen

    def remarks(self, on: Targets, chosen: Sequence[int]) -> list[str]:
        """Lines to show above a cell's output."""
        facts = self._facts()
        away = [p for p in sorted(self._hosts) if p not in chosen]
        if facts.out_of_step:
            without = f", without {processes_text(away)}" if on is None and away else ""
            return [
                f"out of step since cell {facts.since}{without}: collectives may wait. {RESTART}"
            ]
        if away and not self._warned_subset:
            self._warned_subset = True
            every = f"a collective waits for all {len(self._hosts)} processes and would hang"
            return [f"on {processes_text(chosen)} only: {every} (said once)"]
        return []

    def _refuse_unable(self, process_id: int) -> None:
        facts = self._facts()
        where = f"process {process_id} (host {self._hosts[process_id]})"
        if process_id in facts.lost:
            raise TargetError(f"{where} is gone: {facts.lost[process_id]}. {RESTART}")
        if process_id in facts.stuck:
            activity = self._activity(process_id)
            if activity is not None and activity.state == "idle":
                return
            at = f" in cell {activity.cell}, line {activity.line}" if activity else ""
            raise TargetError(f"{where} is stuck{at} and takes no new cell. {RESTART}")
