"""Which processes a cell runs on, and what must be said before it does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence

from nbdist.cells.facts import Facts
from nbdist.contract.snapshot import Activity
from nbdist.errors import SessionError, TargetError
from nbdist.quantities import processes_text, where_text
from nbdist.targets import parse

Targets = str | Sequence[int] | None


class TargetSelector:
    """Reads target words for one session.

    Args:
      hosts: Host names by process id.
      named: The processes that have a name together, such as `"evaluator"`.
      workers: Those that compute in step; a cell runs on them when nothing else is said.
      facts: Answers what is known of the processes now.
      activity: The newest activity of a process.
    """

    def __init__(
        self,
        hosts: Mapping[int, str],
        named: Mapping[str, Collection[int]],
        workers: Collection[int],
        facts: Callable[[], Facts],
        activity: Callable[[int], Activity | None],
    ) -> None:
        self._hosts = hosts
        self._named = named
        self._workers = frozenset(workers)
        self._facts = facts
        self._activity = activity
        self._warned_subset = False

    def targets(self, on: Targets) -> tuple[int, ...]:
        """The processes that `on` names; by default all workers that can take a cell.

        Raises:
          TargetError: No such process, or one that is gone or stuck.
          SessionError: None is left.
        """
        if on is None:
            chosen = tuple(p for p in self.able() if p in self._workers)
            if not chosen:
                raise SessionError(f"All processes are gone or stuck. {self._facts().remedy}")
            return chosen
        words = on if isinstance(on, str) else ",".join(map(str, on))
        chosen = parse(words, self._hosts, self._named)
        for process_id in chosen:
            self._refuse_unable(process_id)
        return chosen

    def there(self, on: Targets) -> tuple[int, ...]:
        """The processes that `on` names, stuck ones included; by default all that are not gone.

        Raises:
          TargetError: No such process, or one that is gone.
        """
        if on is None:
            return tuple(p for p in sorted(self._hosts) if p not in self._facts().lost)
        words = on if isinstance(on, str) else ",".join(map(str, on))
        chosen = parse(words, self._hosts, self._named)
        for process_id in chosen:
            self._refuse_lost(process_id)
        return chosen

    def able(self) -> tuple[int, ...]:
        """All processes that can take a cell, of every role."""
        facts = self._facts()
        return tuple(p for p in sorted(self._hosts) if p not in facts.lost and p not in facts.stuck)

    def remarks(self, on: Targets, chosen: Sequence[int]) -> list[str]:
        """Lines to show above a cell's output."""
        facts = self._facts()
        if self._workers.isdisjoint(chosen):
            return []  # nobody waits for an evaluator
        away = [p for p in sorted(self._workers) if p not in chosen]
        if facts.out_of_step:
            without = f", without {processes_text(away)}" if on is None and away else ""
            return [
                f"out of step since cell {facts.since}{without}: collectives may hang or mix up values. "
                f"{facts.remedy}"
            ]
        if away and not self._warned_subset:
            self._warned_subset = True
            return [
                f"Note: running on {processes_text(chosen)} only. Code that uses global arrays needs all "
                "processes. (Shown once per session.)"
            ]
        return []

    def _refuse_lost(self, process_id: int) -> None:
        facts = self._facts()
        if process_id in facts.lost:
            where = where_text([process_id], self._hosts)
            raise TargetError(f"{where} is gone: {facts.lost[process_id]}. {facts.remedy}")

    def _refuse_unable(self, process_id: int) -> None:
        self._refuse_lost(process_id)
        facts = self._facts()
        where = where_text([process_id], self._hosts)
        if process_id in facts.stuck:
            activity = self._activity(process_id)
            if activity is not None and activity.state == "idle":
                return
            at = f" in cell {activity.cell}" if activity and activity.cell is not None else ""
            at += f", line {activity.line}" if at and activity and activity.line is not None else ""
            raise TargetError(f"{where} is stuck{at} and cannot run another cell. {facts.remedy}")
