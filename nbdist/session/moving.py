"""Values between the notebook and the processes: one push or pull from its first message to its last."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from nbdist.cells.refuse import refuse_computing
from nbdist.contract.calls.values import LetGo, Offer, Receive, ValueOffer
from nbdist.errors import GoneError, OptionError, StaleError
from nbdist.quantities import names_text
from nbdist.rules import Rules
from nbdist.session.engine_group import EngineGroup
from nbdist.session.recovery.after import exclusive
from nbdist.session.recovery.expression import Answers, ask_all_workers, is_name, refuse_busy
from nbdist.spelling import option
from nbdist.values.differing import Comparison
from nbdist.values.flow import Progress, ask_each, silent
from nbdist.values.offers import Offers
from nbdist.values.pull import LARGE_BYTES, Pull
from nbdist.values.push import Packed, Push, described
from nbdist.values.room import refuse_too_large

__all__ = ["LARGE_BYTES", "Progress", "pull", "push", "silent"]

PUSH_SECONDS = 120.0
"""How long nothing may move of what is pushed."""


class Evaluates(Protocol):
    """Asks processes for what they offer of a value."""

    def __call__(self, offer: Offer, ids: Sequence[int]) -> Answers[ValueOffer]:
        """One description a process."""


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
    """Puts values into the namespaces of idle processes; see `nbdist.session.session.Session.push`.

    Args:
      engines: The processes.
      targets: Who gets them.
      values: By name.
      sharding: An expression of the processes.
      busy: Those that are known to be in a cell.
      rules: Of the session.
      progress: Called as bytes go.
    """
    if sharding is not None and not engines.facts.workers.issubset(targets):
        raise OptionError(
            f"{option('sharding')} divides arrays over all processes and cannot be combined with {option('on')}. "
            "Nothing was sent."
        )
    names = names_text(map(repr, values))
    said = f"the push of {names} was interrupted; no process has anything of it, and nothing was changed."
    with _interrupted_in_one_line(said), _exchange(engines, targets) as token:
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
            # All of them or none: an interrupt comes before or after.
            exclusive(engines, going.name)


def pull(
    engines: EngineGroup,
    evaluated: Evaluates,
    targets: Sequence[int],
    expression: str,
    *,
    each: bool,
    limit_bytes: int,
    confirm: Callable[[str], bool] | None,
    timeout_s: float,
    progress: Progress,
) -> Any:
    """Brings one value here; see `nbdist.session.session.Session.pull`.

    Args:
      engines: The processes.
      evaluated: Asks them for what they offer.
      targets: Whose is wanted.
      expression: Of the processes.
      each: Whether those of all are wanted, by process id.
      limit_bytes: Larger ones are asked about.
      confirm: Asked with a sentence before a larger one is sent.
      timeout_s: How long the processes may take to answer.
      progress: Called as bytes come.
    """
    said = f"the pull of {expression!r} was interrupted; nothing in this notebook was changed."

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
                compared = Comparison(offers)
                compared.refuse_other_structure()
                one = targets[:1]
                return coming.values(of=one, besides=compared.jobs(), progress=progress)[one[0]]

    with _interrupted_in_one_line(said):
        try:
            return once()
        except StaleError:
            # After a repair what has a name is there as before; what computes is not computed twice unasked.
            if not is_name(expression):
                raise
            return once()


@contextlib.contextmanager
def _interrupted_in_one_line(said: str) -> Iterator[None]:
    """Shows a line in place of a traceback where the person interrupts."""
    try:
        yield
    except KeyboardInterrupt as interrupt:
        line = f"KeyboardInterrupt: {said}"
        interrupt._render_traceback_ = lambda: [line]  # type: ignore[attr-defined]
        raise


@contextlib.contextmanager
def _exchange(engines: EngineGroup, process_ids: Sequence[int]) -> Iterator[str]:
    """A token for what is on its way; at the end the processes keep nothing of it.

    Args:
      engines: The processes.
      process_ids: Those that take part.
    """
    token = uuid.uuid4().hex
    try:
        yield token
    finally:
        for process_id in process_ids:
            with contextlib.suppress(GoneError):
                engines.send(process_id, LetGo(token=token))
