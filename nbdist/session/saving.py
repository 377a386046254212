"""Saving variables by shard and restoring them: from a person's request to the work of all workers."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nbdist.cells.refuse import refuse_computing
from nbdist.contract.calls.saving import ReadArrays, SaveArrays, SavedName, Saving, SetRestored
from nbdist.contract.calls.values import LetGo
from nbdist.errors import GoneError, OptionError
from nbdist.quantities import bytes_text, count_text, names_text
from nbdist.rules import Rules
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.after import exclusive
from nbdist.session.recovery.expression import Answers, ask_all_workers, ask_some, refuse_busy
from nbdist.values.flow import ask_each

SET_SECONDS = 60.0
"""How long a process may take to give restored values their names."""

SLACK_SECONDS = 5.0
"""How much longer than the processes the notebook waits: they say what they waited for."""

COMPUTES = "save(path)"
"""Code that stands for a save or a restore: they are refused where such a cell is refused."""

WHY_IDLE = "All processes write and read together"


@dataclass(frozen=True)
class Saved:
    """The result of a save or a restore.

    Attributes:
      path: The folder, as the processes have it.
      names: The variables.
      nbytes: Bytes of their whole arrays.
      left_out: Names that were not asked for and cannot be saved, each with the reason in words.
      how: By name how a restored variable lies, in words; empty after a save.
    """

    path: str
    names: tuple[str, ...]
    nbytes: int
    left_out: tuple[str, ...]
    how: dict[str, str]

    def __str__(self) -> str:
        """Return the text that the magics print."""
        did = "restored from" if self.how else "saved in"
        lines = [f"{names_text(self.names)} ({bytes_text(self.nbytes)}) {did} {self.path}"]
        by_how: dict[str, list[str]] = {}
        for name, how in self.how.items():
            by_how.setdefault(how, []).append(name)
        lines += [f"  {names_text(names)}: {how}" for how, names in by_how.items()]
        if self.left_out:
            lines.append(f"{count_text(len(self.left_out), 'name')} left out:")
            lines += [f"  {one}" for one in self.left_out]
        return "\n".join(lines)


def save(
    engines: EngineGroup,
    path: str,
    names: Sequence[str],
    *,
    busy: Iterable[int],
    rules: Rules,
    timeout_s: float,
) -> Saved:
    """Write variables of the processes; see `nbdist.session.session.Session.save`.

    Args:
      engines: The processes.
      path: The folder.
      names: The variables' names.
      busy: Processes known to be in a cell.
      rules: The session's rules.
      timeout_s: How many seconds it may take.
    """
    call = SaveArrays(
        path=path, names=_checked(path, names), token=uuid.uuid4().hex, timeout_s=timeout_s
    )
    return _saved(_asked(engines, call, busy=busy, rules=rules))


def restore(
    engines: EngineGroup,
    path: str,
    names: Sequence[str],
    *,
    busy: Iterable[int],
    rules: Rules,
    timeout_s: float,
) -> Saved:
    """Read variables, and give them their names on all processes or on none.

    See `nbdist.session.session.Session.restore`.

    Args:
      engines: The processes.
      path: The folder.
      names: The variables' names.
      busy: Processes known to be in a cell.
      rules: The session's rules.
      timeout_s: How many seconds it may take.
    """
    token = uuid.uuid4().hex
    call = ReadArrays(path=path, names=_checked(path, names), token=token, timeout_s=timeout_s)
    workers = sorted(engines.facts.workers)
    try:
        found = _asked(engines, call, busy=busy, rules=rules)

        def name() -> None:
            asked = {p: engines.send(p, SetRestored(token=token)) for p in workers}
            ask_each(engines, asked, timeout_s=SET_SECONDS)

        # All of them or none: an interrupt comes before or after.
        exclusive(engines, name)
    finally:
        for process_id in workers:
            with contextlib.suppress(GoneError):
                engines.send(process_id, LetGo(token=token))
    return _saved(found)


def _asked(
    engines: EngineGroup, call: SaveArrays | ReadArrays, *, busy: Iterable[int], rules: Rules
) -> Saving:
    workers = sorted(engines.facts.workers)
    refuse_busy(engines, workers, WHY_IDLE, known=busy)
    answers: Answers[Saving]
    if not engines.proves:
        answers = ask_some(engines, call, workers, timeout_s=call.timeout_s + SLACK_SECONDS)
    else:
        if engines.facts.out_of_step:
            refuse_computing(COMPUTES, engines.facts)
        limit_s = call.timeout_s + SLACK_SECONDS
        answers = ask_all_workers(engines, call, wanted=workers, timeout_s=limit_s, rules=rules)
    return answers[workers[0]][0]


def _checked(path: str, names: Sequence[str]) -> tuple[str, ...]:
    if isinstance(names, str):
        raise OptionError(f"names={names!r} is one text; give a list of names: [{names!r}].")
    if not path:
        raise OptionError("PATH is empty; name a folder that all hosts see.")
    wrong = next((name for name in names if not name.isidentifier()), None)
    if wrong is not None:
        raise OptionError(
            f"{wrong!r} is no name. What is an expression needs a name first: run x = {wrong} in "
            "a cell, and save x."
        )
    return tuple(dict.fromkeys(names))


def _saved(found: Saving) -> Saved:
    names: Sequence[SavedName] = found.names
    return Saved(
        path=found.path,
        names=tuple(one.name for one in names),
        nbytes=sum(one.nbytes for one in names),
        left_out=found.left_out,
        how={one.name: one.how for one in names if one.how},
    )
