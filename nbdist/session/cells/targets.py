"""Targets, the processes a cell runs on: how a person names them, and the remarks shown before the cell runs."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from nbdist.contract.snapshot import Activity
from nbdist.errors import SessionError, TargetError
from nbdist.notation import processes_text, read_range, where_text
from nbdist.session.cells.facts import ProcessFacts

_DASHED = re.compile(r"[0-9]+-")
_COUNTED = re.compile(r"(-?\d+)|(-?\d*):(-?\d*)(?::(-?\d+))?")


def parse(
    text: str, hosts: Mapping[int, str], named: Mapping[str, Collection[int]] | None = None
) -> tuple[int, ...]:
    """Return the process ids that `text` names, ascending, each once.

    `0,2:4` counts as Python does (4 is left out), `0,2-4` with both ends; `host=h1` names all processes of a host;
    `-1` is the last; `evaluator` and `chief` name TensorFlow's roles. In brackets, `[0,1-2]`, both ends count: the
    form known from other notebook tools.

    Args:
      text: `0,2:4`, `0-3,5`, `[0,1-2]`, `host=h1`, `evaluator`, or `all`.
      hosts: Host name of each process of the session, by process id.
      named: The processes of each named group, such as a role.

    Raises:
      TargetError: A part that cannot be read, or that names no process.
    """
    text = text.strip()
    if text == "all":
        return tuple(sorted(hosts))
    bracketed = text.startswith("[") and text.endswith("]")
    if bracketed:
        text = text[1:-1]
    found: set[int] = set()
    for part in (part.strip() for part in text.split(",")):
        if part.startswith("host="):
            found.update(_on_host(part, hosts))
        elif part.isalpha():
            found.update(_of_name(part, hosts, named or {}))
        elif bracketed or _DASHED.match(part):
            found.update(_with_both_ends(part, hosts, " in brackets" if bracketed else ""))
        else:
            found.update(_counted(part, hosts))
    return tuple(sorted(found))


def _of_name(
    part: str, hosts: Mapping[int, str], named: Mapping[str, Collection[int]]
) -> list[int]:
    ids = named.get(part, ()) or named.get(part.removesuffix("s"), ())
    if not ids:
        names = (
            f" Its roles are {', '.join(name for name, ids in named.items() if ids)}."
            if named
            else ""
        )
        raise TargetError(f"Cannot read target {part!r}. {_allowed(hosts)}{names}")
    return list(ids)


def _allowed(hosts: Mapping[int, str]) -> str:
    return (
        f"This session has processes 0 to {len(hosts) - 1}; "
        "write 0,2 or 0:2 (as in Python, without 2) or 0-2 or [0-2] (with 2) or host=NAME."
    )


def _on_host(part: str, hosts: Mapping[int, str]) -> list[int]:
    name = part.removeprefix("host=")
    found = [process_id for process_id, host in hosts.items() if host == name]
    if not found:
        names = ", ".join(sorted(set(hosts.values())))
        raise TargetError(f"No process runs on host {name!r}. Hosts of this session: {names}.")
    return found


def _with_both_ends(part: str, hosts: Mapping[int, str], where: str) -> list[int]:
    try:
        numbers = read_range(part).numbers
    except ValueError as error:
        raise TargetError(
            f"Cannot read target {part!r}{where}: {error} {_allowed(hosts)}"
        ) from None
    return _known(part, numbers, hosts)


def _counted(part: str, hosts: Mapping[int, str]) -> list[int]:
    match = _COUNTED.fullmatch(part)
    if not match:
        raise TargetError(f"Cannot read target {part!r}. {_allowed(hosts)}")
    everyone = sorted(hosts)
    single, start, stop, step = match.groups()
    if single is not None:
        number = int(single)
        return _known(part, [number + len(everyone) if number < 0 else number], hosts)
    start, stop, step = (int(value) if value else None for value in (start, stop, step))
    if step == 0:
        raise TargetError(f"Target {part!r} has a step of 0. {_allowed(hosts)}")
    return _known(part, everyone[slice(start, stop, step)], hosts)


def _known(part: str, numbers: range | list[int], hosts: Mapping[int, str]) -> list[int]:
    # `any` stops at the first unknown one: a person may type a very long range.
    if not numbers or any(number not in hosts for number in numbers):
        raise TargetError(f"Target {part!r} names no process of this session. {_allowed(hosts)}")
    return list(numbers)


Targets = str | Sequence[int] | None
"""Target words of a person, or process ids; None stands for a call's default."""


class TargetSelector:
    """Reads target words for one session.

    Args:
      hosts: Host names by process id.
      named: The processes of each named group, such as `"evaluator"`.
      workers: The processes that compute in step; a cell runs on them by default.
      facts: Returns what is known of the processes now.
      activity: Returns the newest activity of a process.
    """

    def __init__(
        self,
        hosts: Mapping[int, str],
        named: Mapping[str, Collection[int]],
        workers: Collection[int],
        facts: Callable[[], ProcessFacts],
        activity: Callable[[int], Activity | None],
    ) -> None:
        self._hosts = hosts
        self._named = named
        self._workers = frozenset(workers)
        self._facts = facts
        self._activity = activity
        self._warned_subset = False

    def targets(self, on: Targets) -> tuple[int, ...]:
        """Return the processes that `on` names; by default all workers that can take a cell.

        Raises:
          TargetError: There is no such process, or one is gone or stuck.
          SessionError: No worker is left.
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
        """Return the processes that `on` names, stuck ones included; by default all that are not gone.

        Raises:
          TargetError: There is no such process, or one is gone.
        """
        if on is None:
            return tuple(p for p in sorted(self._hosts) if p not in self._facts().lost)
        words = on if isinstance(on, str) else ",".join(map(str, on))
        chosen = parse(words, self._hosts, self._named)
        for process_id in chosen:
            self._refuse_lost(process_id)
        return chosen

    def able(self) -> tuple[int, ...]:
        """Return all processes that can take a cell, of every role."""
        facts = self._facts()
        return tuple(p for p in sorted(self._hosts) if p not in facts.lost and p not in facts.stuck)

    def remarks(self, on: Targets, chosen: Sequence[int]) -> list[str]:
        """Return lines to show above the output of a cell that is to run on the `chosen` processes."""
        facts = self._facts()
        if self._workers.isdisjoint(chosen):
            return []  # no other process waits for an evaluator
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
