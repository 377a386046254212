"""Moves of values: push and pull between the notebook and the processes, save and restore by shard.

Each function carries out one request of a person, from the first message to the last.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.contract.calls.namespace import ReadArrays, SaveArrays, SavedName, Saving, SetRestored
from nbdist.contract.calls.values import LetGo, Offer, Receive, ValueOffer
from nbdist.errors import GoneError, OptionError, StaleError
from nbdist.launch.model.start_options import Rules
from nbdist.notation import bytes_text, count_text, names_text
from nbdist.session.cells.doubt import refuse_computing
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.expression import (
    ask_all_workers,
    ask_some,
    is_name,
    refuse_busy,
)
from nbdist.session.values.flow import Answers, Progress, ask_each, refuse_too_large, silent
from nbdist.session.values.offers import Offers, ValueComparison
from nbdist.session.values.pull import LARGE_BYTES, Pull
from nbdist.session.values.push import Packed, Push, described
from nbdist.spelling import option

__all__ = ["LARGE_BYTES", "Progress", "pull", "push", "silent"]

PUSH_SECONDS = 120.0
"""Seconds after which a push without progress is given up."""


def push(
    engines: EngineGroup,
    targets: Sequence[int],
    values: Mapping[str, Any],
    *,
    sharding: str | None,
    busy: Iterable[int],
    rules: Rules,
    progress: Progress,
) -> None:
    """Put values into the namespaces of idle processes; see `nbdist.session.session.Session.push`.

    Args:
      engines: The processes.
      targets: The processes that get the values.
      values: The values, by name.
      sharding: An expression that the processes evaluate; None: each target gets all of each value.
      busy: Processes that are known to be in a cell.
      rules: The session's rules.
      progress: Called as bytes are sent.
    """
    if sharding is not None and not engines.facts.workers.issubset(targets):
        raise OptionError(
            f"{option('sharding')} divides arrays over all processes and cannot be combined with {option('on')}. "
            "Nothing was sent."
        )
    names = names_text(map(repr, values))
    line = f"the push of {names} was interrupted; nothing was changed on any process."
    with _interrupted_in_one_line(line), _exchange(engines, targets) as token:
        content = Packed(values, all_apart=sharding is not None)
        refuse_busy(engines, targets, "Values can be pushed only while no cell runs", known=busy)
        call = Receive(token=token, arrays=described(content.arrays), sharding=sharding)
        if sharding is not None and engines.proves:
            if engines.facts.out_of_step:
                refuse_computing(sharding, engines.facts)
            rooms = ask_all_workers(
                engines, call, wanted=targets, timeout_s=PUSH_SECONDS, rules=rules
            )
        else:
            asked = {p: engines.send(p, call) for p in targets}
            rooms = ask_each(engines, asked, timeout_s=PUSH_SECONDS)
        made = {p: room for p, (room, _) in rooms.items()}
        going = Push(
            engines, content.arrays, made, token, hosts=engines.plan.hosts, timeout_s=PUSH_SECONDS
        )
        with contextlib.closing(going):
            going.share()
            refuse_too_large(
                names,
                made,
                going.needs(),
                len(content.structure),
                hosts=engines.plan.hosts,
                host_text=engines.host_text,
            )
            with engines.settling:
                going.send(content.structure, progress=progress)
            # On all processes or on none: an interrupt takes effect before or after this.
            engines.exclusive(going.name)


def pull(
    engines: EngineGroup,
    evaluated: Callable[[Offer, Sequence[int]], Answers[ValueOffer]],
    targets: Sequence[int],
    expression: str,
    *,
    each: bool,
    limit_bytes: int,
    confirm: Callable[[str], bool] | None,
    timeout_s: float,
    progress: Progress,
) -> Any:
    """Bring one value here; see `nbdist.session.session.Session.pull`.

    Args:
      engines: The processes.
      evaluated: Asks processes what they offer of the value; returns a description of each.
      targets: The processes whose value is wanted.
      expression: An expression that the processes evaluate.
      each: Whether to bring the value of each target, by process id.
      limit_bytes: A larger value is refused, or asked about.
      confirm: Asked with a sentence before a larger value is sent.
      timeout_s: How many seconds the processes may take to answer.
      progress: Called as bytes come.
    """
    line = f"the pull of {expression!r} was interrupted; nothing in this notebook was changed."

    def once() -> Any:
        with _exchange(engines, targets) as token:
            found = evaluated(Offer(token=token, expression=expression), targets)
            offers = Offers(
                processes=engines,
                by_process={p: offer for p, (offer, _) in found.items()},
                token=token,
                expression=expression,
                timeout_s=timeout_s,
            )
            coming = Pull(offers)
            coming.refuse_large(len(targets) if each else 1, limit_bytes, confirm)
            with engines.settling:
                if each:
                    return coming.values(of=targets, progress=progress)
                compared = ValueComparison(offers)
                compared.refuse_other_structure()
                one = targets[:1]
                return coming.values(of=one, besides=compared.jobs(), progress=progress)[one[0]]

    with _interrupted_in_one_line(line):
        try:
            return once()
        except StaleError:
            # A repair came in between: a name still has its value, but an expression is not computed twice
            # unasked.
            if not is_name(expression):
                raise
            return once()


@contextlib.contextmanager
def _interrupted_in_one_line(text: str) -> Iterator[None]:
    """Show a line in place of a traceback when the person interrupts."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        line = f"KeyboardInterrupt: {text}"
        interrupt._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
        raise


@contextlib.contextmanager
def _exchange(engines: EngineGroup, process_ids: Sequence[int]) -> Iterator[str]:
    """Yield a token for values on their way; at the end the processes drop what they hold under it.

    Args:
      engines: The processes.
      process_ids: The processes that take part.
    """
    token = uuid.uuid4().hex
    try:
        yield token
    finally:
        for process_id in process_ids:
            with contextlib.suppress(GoneError):
                engines.send(process_id, LetGo(token=token))


SET_SECONDS = 60.0
"""Seconds a process may take to give restored values their names."""

SLACK_SECONDS = 5.0
"""How many seconds longer the notebook waits than the processes, whose errors say what they waited for."""

COMPUTES = "save(path)"
"""Code that stands for a save or a restore: both are refused whenever a cell with this code is."""

WHY_IDLE = "All processes write and read together"
"""The reason why no process may be in a cell, as the beginning of a sentence."""


@dataclass(frozen=True)
class Saved:
    """The result of a save or a restore.

    Attributes:
      path: The folder, as the processes have it.
      names: The variables.
      nbytes: Bytes of their whole arrays.
      left_out: Names that were not asked for and cannot be saved, each with the reason in words.
      how: How each restored variable is laid out, in words, by name; empty after a save.
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
      timeout_s: How many seconds the save may take.
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
      timeout_s: How many seconds reading may take.
    """
    checked = _checked(path, names)
    workers = sorted(engines.facts.workers)
    with _exchange(engines, workers) as token:
        call = ReadArrays(path=path, names=checked, token=token, timeout_s=timeout_s)
        found = _asked(engines, call, busy=busy, rules=rules)

        def set_names() -> None:
            asked = {p: engines.send(p, SetRestored(token=token)) for p in workers}
            ask_each(engines, asked, timeout_s=SET_SECONDS)

        # On all processes or on none: an interrupt takes effect before or after this.
        engines.exclusive(set_names)
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
