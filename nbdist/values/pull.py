"""Values from the processes, put together here from the parts that lie on each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbdist.dtypes import dtype_named
from nbdist.engine.values.arrays import shape_of, slices
from nbdist.engine.values.packing import unpacked
from nbdist.errors import ArrayError
from nbdist.launch.calling import Asked
from nbdist.quantities import bytes_text
from nbdist.values.boxes import Bounds, boxes, elements
from nbdist.values.differing import Offers
from nbdist.values.flow import Answers, Flow, Job, Processes, Progress, ask_each, silent
from nbdist.values.room import refuse_too_large_here
from nbdist.values.window import SLOT_BYTES, Window

LARGE_BYTES = 1 << 30
"""What is larger than this is pulled only when the person says so: 1 GB."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of an array that is here to be filled, and where its bytes are."""

    target: np.ndarray[Any, Any]
    box: Bounds
    path: str
    piece: int


class Pull:
    """Values that processes offer, on their way here.

    Args:
      processes: Who offers.
      offers: What each has described.
      token: Of the offers.
      window: Memory shared with processes on this machine.
      expression: How the value was named.
      timeout_s: How long nothing may move.
    """

    def __init__(
        self,
        processes: Processes,
        offers: Offers,
        token: str,
        *,
        window: Window | None,
        expression: str,
        timeout_s: float,
    ) -> None:
        self._processes = processes
        self._offers = offers
        self._token = token
        self._window = window
        self._expression = expression
        self._timeout_s = timeout_s

    def refuse_large(
        self, wanted: int, limit_bytes: int, confirm: Callable[[str], bool] | None
    ) -> None:
        """Lets pass what is small, or what a person wants all the same.

        Args:
          wanted: How many such values are wanted.
          limit_bytes: Larger ones are asked about.
          confirm: Asked with a sentence.

        Raises:
          ArrayError: It is too large.
        """
        arrays = next(iter(self._offers.values()))["arrays"].values()
        nbytes = wanted * sum(array["nbytes"] for array in arrays)
        refuse_too_large_here(self._expression, nbytes)
        if nbytes <= limit_bytes:
            return
        size = bytes_text(nbytes)
        question = f"{self._expression!r} is {size} in whole. Bring it into this notebook?"
        if confirm is None or not confirm(question):
            raise ArrayError(
                f"{self._expression!r} is {size} in whole, more than {bytes_text(limit_bytes)}: not pulled. Say "
                "--yes (limit_bytes in Python) to pull it all the same, or pull a part of it."
            )

    def values(self, *, of: Sequence[int], progress: Progress = silent) -> dict[int, Any]:
        """The values of some processes, by process id.

        What lies in pieces on several processes is taken from all that offer it; what is whole on a process, from
        this one. With one process in `of`, equal parts of all are taken from whoever has least to send.

        Args:
          of: Which processes.
          progress: Called as bytes come.

        Raises:
          ArrayError: Pieces are missing, or a class is not here.
        """
        asked = {p: self._processes.send(p, "structure", token=self._token) for p in of}
        answers = ask_each(self._processes, asked, timeout_s=self._timeout_s)
        together = len(of) == 1
        arrays: dict[int, dict[str, np.ndarray[Any, Any]]] = {}
        parts: dict[int, list[Part]] = {p: [] for p in self._offers}
        for process_id in of:
            arrays[process_id] = {
                path: self._array(path, array, process_id, parts, together=together)
                for path, array in self._offers[process_id]["arrays"].items()
            }
        flow = Flow(self._processes, timeout_s=self._timeout_s, progress=progress)
        flow.run(job for p, its in parts.items() for job in self._jobs(p, its))
        return {p: unpacked(answers[p][1][0], arrays[p].__getitem__) for p in of}

    def _array(
        self,
        path: str,
        described: Mapping[str, Any],
        process_id: int,
        parts: dict[int, list[Part]],
        *,
        together: bool,
    ) -> np.ndarray[Any, Any]:
        """An array to be filled; adds to `parts` what is to be taken from each process for it."""
        dtype = dtype_named(described["dtype"])
        holders: dict[str, tuple[Bounds, dict[int, int]]] = {}
        sources = self._offers if together or not described["whole"] else (process_id,)
        for source in sources:
            offered = self._offers[source]["arrays"].get(path)
            for number, bounds in enumerate(offered["pieces"] if offered else ()):
                holders.setdefault(str(bounds), (bounds, {}))[1][source] = number
        whole = elements([[0, size] for size in described["shape"]])
        here = sum(elements(bounds) for bounds, _ in holders.values())
        if here != whole:
            raise ArrayError(
                f"{path!r}: only {here} of {whole} elements are on the processes that were asked; the rest is on "
                "processes that are gone or not targets."
            )
        array = np.empty(tuple(described["shape"]), dtype)
        for bounds, held in holders.values():
            for box in boxes(bounds, dtype.itemsize, SLOT_BYTES):
                source = min(held, key=lambda p: len(parts[p]))
                part = Part(target=array, box=box, path=path, piece=held[source])
                parts[source].append(part)
        return array

    def _jobs(self, process_id: int, parts: Iterable[Part]) -> Iterable[Job]:
        shared = bool(self._offers[process_id]["shared"])
        for batch in batches(parts, lambda part: _nbytes(part.target, part.box)):
            yield Job(
                process_ids=(process_id,),
                shared=shared,
                nbytes=sum(_nbytes(part.target, part.box) for part in batch),
                begin=lambda at, batch=batch: self._take(process_id, batch, at),  # type: ignore[misc]
                end=lambda at, answers, batch=batch: self._put(batch, at, answers),  # type: ignore[misc]
            )

    def _take(self, process_id: int, batch: Sequence[Part], at: int | None) -> dict[int, Asked]:
        wanted = [(part.path, part.piece, part.box) for part in batch]
        request = self._processes.send(process_id, "take", token=self._token, boxes=wanted, at=at)
        return {process_id: request}

    def _put(self, batch: Sequence[Part], at: int | None, answers: Answers) -> None:
        ((_, buffers),) = answers.values()
        offset = at or 0
        for part in batch:
            shape, dtype = shape_of(part.box), part.target.dtype
            if at is not None:
                assert self._window is not None
                source = self._window.array(offset, dtype, shape)
            else:
                source = np.ndarray(shape, dtype, buffers[0], offset=offset)
            part.target[slices(part.box)] = source
            offset += source.nbytes


def batches(parts: Iterable[Any], nbytes: Callable[[Any], int]) -> Iterable[list[Any]]:
    """Groups parts so that each group fits into one message; order is kept."""
    batch: list[Any] = []
    filled = 0
    for part in itertools.chain(parts, [None]):
        size = 0 if part is None else nbytes(part)
        if batch and (part is None or filled + size > SLOT_BYTES):
            yield batch
            batch, filled = [], 0
        if part is not None:
            batch.append(part)
            filled += size


def _nbytes(target: np.ndarray[Any, Any], box: Bounds) -> int:
    return elements(box) * int(target.dtype.itemsize)
