"""Offers of one value by several processes, which are compared and pulled.

`Offers` asks the processes about the value; `ValueComparison` refuses a value that differs between them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from nbdist.contract.calls import Call
from nbdist.contract.calls.values import (
    AskDigests,
    AskNodes,
    AskPreview,
    Box,
    PieceDigests,
    ValueOffer,
)
from nbdist.errors import ArrayError
from nbdist.launch.start.pending import Pending
from nbdist.notation import array_type_text, processes_text
from nbdist.session.values.flow import (
    Answer,
    Answers,
    PartsMessage,
    Processes,
    ask_each,
    send,
)
from nbdist.spelling import option

A = TypeVar("A")


@dataclass(frozen=True, slots=True, kw_only=True)
class Offers:
    """A value that several processes have described.

    Attributes:
      processes: The processes to ask.
      by_process: Each process's description.
      token: The token under which they keep it.
      expression: The expression for the value.
      timeout_s: Seconds an answer may take, and after which a move is given up if nothing moves.
    """

    processes: Processes
    by_process: Mapping[int, ValueOffer]
    token: str
    expression: str
    timeout_s: float

    def send(self, process_id: int, call: Call[A]) -> Pending[A]:
        """Send one process a call about its offer."""
        return send(self.processes, process_id, call)

    def ask(self, call: Call[A], process_ids: Iterable[int]) -> Answers[A]:
        """Return the answers of several processes to the same call; raise as `ask_each` does."""
        return self.answers({p: self.send(p, call) for p in process_ids})

    def answers(self, asked: Mapping[int, Pending[A]]) -> Answers[A]:
        """Wait for answers to sent requests; raise as `ask_each` does."""
        return ask_each(self.processes, asked, timeout_s=self.timeout_s)


Key = tuple[str, Box]
"""The path of an array, and a piece of it."""

GONE = "nothing"
"""The text for a process without a value at a path."""


class ValueComparison:
    """Comparison of a value on several processes, by digests that each makes of its own parts; no collective."""

    def __init__(self, offers: Offers) -> None:
        self._offers = offers
        self._digests: dict[Key, dict[int, str]] = {}
        holders: dict[Key, dict[int, int]] = {}
        for process_id, offer in offers.by_process.items():
            for path, array in offer.arrays.items():
                for number, bounds in enumerate(array.pieces):
                    holders.setdefault((path, bounds), {})[process_id] = number
        self._shared = {key: held for key, held in holders.items() if len(held) > 1}

    def refuse_other_structure(self) -> None:
        """Raise if the structure, all but the elements of arrays, differs between processes.

        Raises:
          ArrayError: It differs; the text says where, which process has what, and how to pull one or all.
        """
        offers = self._offers
        if len({offer.digest for offer in offers.by_process.values()}) > 1:
            answers = offers.ask(AskNodes(token=offers.token), offers.by_process)
            nodes = {p: answer.nodes for p, (answer, _) in answers.items()}
            path, texts = _first_difference(nodes, offers.expression)
            raise _differs(path, texts, offers.expression)

    def jobs(self) -> list[PartsMessage]:
        """Return a job for each process: it digests the parts of arrays that others have as well.

        Arrays that differ are refused as digests arrive: the end of a job raises ArrayError, as
        `refuse_other_structure` does.
        """
        pieces: dict[int, list[tuple[Key, int]]] = {}
        for key, held in self._shared.items():
            for process_id, number in held.items():
                pieces.setdefault(process_id, []).append((key, number))
        return [
            PartsMessage(
                process_id=process_id,
                nbytes=0,
                begin=functools.partial(self._ask, process_id, its),
                end=functools.partial(self._compare, process_id, its),
            )
            for process_id, its in pieces.items()
        ]

    def _ask(self, process_id: int, pieces: Sequence[tuple[Key, int]]) -> Pending[PieceDigests]:
        wanted = tuple((path, number) for (path, _), number in pieces)
        return self._offers.send(process_id, AskDigests(token=self._offers.token, pieces=wanted))

    def _compare(
        self,
        process_id: int,
        pieces: Sequence[tuple[Key, int]],
        answer: Answer[PieceDigests],
    ) -> None:
        for (key, _), digest in zip(pieces, answer[0].digests, strict=True):
            self._digests.setdefault(key, {})[process_id] = digest
        for key, _ in pieces:
            digests = self._digests[key]
            # Only with the digests of all holders can the error say which process has what.
            if len(digests) == len(self._shared[key]) and len(set(digests.values())) > 1:
                texts = _array_texts(self._offers, key, self._shared[key], digests)
                raise _differs(key[0], texts, self._offers.expression)


def _array_texts(
    offers: Offers, key: Key, held: Mapping[int, int], digests: Mapping[int, str]
) -> dict[int, str]:
    """Return each process's version of an array as text; of equal versions, only one process is asked."""
    path, bounds = key
    first: dict[str, int] = {}
    for process_id, digest in digests.items():
        first.setdefault(digest, process_id)
    answers = offers.answers(
        {
            p: offers.send(p, AskPreview(token=offers.token, path=path, piece=held[p]))
            for p in first.values()
        }
    )
    array = next(iter(offers.by_process.values())).arrays[path]
    name = array.dtype if isinstance(array.dtype, str) else "struct"
    part = "" if array.whole else f"[{_index_text(bounds)}]"
    begins = {digest: answers[p][0].text for digest, p in first.items()}
    alike = len(set(begins.values())) < len(begins)
    return {
        p: f"{array_type_text(name, array.shape)}{part} {begins[digest]}"
        + (f" (digest {digest[:7]})" if alike else "")
        for p, digest in digests.items()
    }


def _index_text(bounds: Box) -> str:
    """Return `((0, 2), (4, 8))` as `0:2, 4:8`."""
    return ", ".join(f"{start}:{stop}" for start, stop in bounds)


def _first_difference(
    nodes: Mapping[int, Sequence[Sequence[str]]], expression: str
) -> tuple[str, dict[int, str]]:
    """Return the path of the first difference, and what each process has there."""
    known: dict[int, dict[str, tuple[str, str]]] = {}
    for process_id, its in nodes.items():
        here_by_path = known[process_id] = {}
        for path, digest, text in its:
            # An object that only wraps an array has the same path as the array.
            before = here_by_path.get(path, ("", ""))[0]
            here_by_path[path] = (before + digest, text)
    paths = {path: None for its in nodes.values() for path, _, _ in its}
    for path in paths:
        here = {p: its.get(path) for p, its in known.items()}
        if len({entry and entry[0] for entry in here.values()}) > 1:
            texts = {p: entry[1] if entry else GONE for p, entry in here.items()}
            if len(set(texts.values())) == 1:
                texts = {p: f"{text} (digest {here[p][0][-7:]})" for p, text in texts.items()}  # type: ignore[index]
            return path, texts
    return expression, dict.fromkeys(nodes, "something else")


def _differs(path: str, texts: Mapping[int, str], expression: str) -> ArrayError:
    groups: dict[str, list[int]] = {}
    for process_id, text in sorted(texts.items()):
        groups.setdefault(text, []).append(process_id)
    has = [
        f"{processes_text(ids)} {'has' if len(ids) == 1 else 'have'} {text}"
        for text, ids in groups.items()
    ]
    one = min(texts)
    at = "" if path == expression else f" at {path}"
    return ArrayError(
        f"{expression!r} differs between the processes{at}: {', '.join(has)}. {option('on', [one])} brings "
        f"that of one process, {option('each', True)} those of all, by process id."
    )
