"""Values of the notebook on their way to processes, where they get their names when they are whole on all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from nbdist.dtypes import dtype_name
from nbdist.engine.showable import error_text
from nbdist.engine.values.arrays import is_numpy_array, slices
from nbdist.engine.values.packing import packed
from nbdist.errors import ArrayError
from nbdist.launch.calling import Asked
from nbdist.values.boxes import Bounds, boxes, elements
from nbdist.values.flow import Answers, Flow, Job, Processes, Progress, ask_each, silent
from nbdist.values.pull import batches
from nbdist.values.window import SLOT_BYTES, Window

APART_BYTES = 1 << 16
"""Arrays from this size on travel beside the pickle of what holds them."""


class Packed:
    """Values of the notebook, ready to be sent.

    Args:
      values: By name.
      all_apart: Whether each value is an array to be divided over the processes.

    Attributes:
      structure: The pickle, with numbers in place of arrays.
      arrays: Those arrays.

    Raises:
      ArrayError: A value that cannot be pickled, or is no array where one is needed; nothing has been sent.
    """

    def __init__(self, values: Mapping[str, Any], *, all_apart: bool) -> None:
        self.arrays: list[np.ndarray[Any, Any]] = []
        self._numbers: dict[int, int] = {}
        self._least = 0 if all_apart else APART_BYTES
        if all_apart:
            values = {name: _array(name, value) for name, value in values.items()}
        try:
            self.structure = packed(dict(values), self._number, code_by_value=True)
        except Exception:
            for name, value in values.items():
                self._refuse_unfit(name, value)
            raise

    def _refuse_unfit(self, name: str, value: object) -> None:
        try:
            packed(value, self._number, code_by_value=True)
        except Exception as error:
            raise ArrayError(
                f"{name!r} (of type {type(value).__name__}) cannot be sent to the processes "
                f"({error_text(error)}). Make it in a %%dist cell instead."
            ) from error

    def _number(self, value: Any) -> int | None:
        if not is_numpy_array(value) or value.nbytes < self._least:
            return None
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self.arrays)
            self.arrays.append(value)
        return self._numbers[id(value)]


def _array(name: str, value: Any) -> np.ndarray[Any, Any]:
    if is_numpy_array(value):
        return value  # type: ignore[no-any-return]
    raise ArrayError(
        f"{name!r} is of type {type(value).__name__}: a sharding divides NumPy arrays of numbers. Nothing "
        "was sent."
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A part of an array, and which part of it that is on the processes that get it."""

    array: int
    box: Bounds
    pieces: tuple[int, ...]


class Push:
    """Arrays on their way to processes that have made room for them.

    Args:
      processes: Who takes them.
      arrays: What is sent.
      rooms: What each process has answered; see `nbdist.engine.values.incoming.Incoming.describe`.
      token: Of the push.
      window: Memory shared with processes on this machine.
      timeout_s: How long nothing may move.
    """

    def __init__(
        self,
        processes: Processes,
        arrays: Sequence[np.ndarray[Any, Any]],
        rooms: Mapping[int, Mapping[str, Any]],
        token: str,
        *,
        window: Window | None,
        timeout_s: float,
    ) -> None:
        self._processes = processes
        self._arrays = arrays
        self._rooms = rooms
        self._token = token
        self._window = window
        self._timeout_s = timeout_s

    def send(self, structure: bytes, *, progress: Progress = silent) -> None:
        """Sends all, and has the processes make the values, which have no names yet.

        Raises:
          NbdistError: A process has ended, or could not make them.
        """
        flow = Flow(self._processes, timeout_s=self._timeout_s, progress=progress)
        flow.run(self._jobs())
        asked = {
            p: self._processes.send(p, "ready", structure, token=self._token) for p in self._rooms
        }
        ask_each(self._processes, asked, timeout_s=self._timeout_s)

    def name(self) -> None:
        """Gives the values their names on all processes."""
        asked = {p: self._processes.send(p, "set_names", token=self._token) for p in self._rooms}
        ask_each(self._processes, asked, timeout_s=self._timeout_s)

    def _jobs(self) -> Iterable[Job]:
        """Parts that several processes on this machine want go once."""
        near = tuple(p for p, room in self._rooms.items() if room["shared"])
        far = [p for p in self._rooms if p not in near]
        groups: dict[tuple[int, ...], list[Part]] = {}
        for group in (near, *((p,) for p in far)):
            for ids, part in self._parts(group):
                groups.setdefault(ids, []).append(part)
        for ids, parts in groups.items():
            for batch in batches(parts, self._nbytes):
                yield Job(
                    process_ids=ids,
                    shared=ids[0] in near,
                    nbytes=sum(map(self._nbytes, batch)),
                    begin=lambda at, ids=ids, batch=batch: self._put(ids, batch, at),  # type: ignore[misc]
                    end=_taken,
                )

    def _parts(self, process_ids: Sequence[int]) -> Iterable[tuple[tuple[int, ...], Part]]:
        """Which parts go to which of these processes."""
        for number, array in enumerate(self._arrays):
            wanted: dict[str, tuple[Bounds, dict[int, int]]] = {}
            for process_id in process_ids:
                for piece, bounds in enumerate(self._rooms[process_id]["wanted"][number]):
                    wanted.setdefault(str(bounds), (bounds, {}))[1][process_id] = piece
            for bounds, pieces in wanted.values():
                for box in boxes(bounds, array.dtype.itemsize, SLOT_BYTES):
                    yield tuple(pieces), Part(array=number, box=box, pieces=tuple(pieces.values()))

    def _nbytes(self, part: Part) -> int:
        return elements(part.box) * int(self._arrays[part.array].dtype.itemsize)

    def _put(self, ids: Sequence[int], batch: Sequence[Part], at: int | None) -> dict[int, Asked]:
        data = []
        offset = at or 0
        for part in batch:
            source = self._arrays[part.array][slices(part.box)]
            if at is None:
                data.append(source.tobytes())
                continue
            assert self._window is not None
            self._window.array(offset, source.dtype, source.shape)[...] = source
            offset += source.nbytes
        buffers = [b"".join(data)] if at is None else []
        return {
            process_id: self._processes.send(
                process_id,
                "put",
                *buffers,
                token=self._token,
                boxes=[(part.array, part.pieces[nth], part.box) for part in batch],
                at=at,
            )
            for nth, process_id in enumerate(ids)
        }


def described(arrays: Iterable[np.ndarray[Any, Any]]) -> list[dict[str, Any]]:
    """What processes must know to make room."""
    return [{"dtype": dtype_name(a.dtype), "shape": list(a.shape)} for a in arrays]


def _taken(at: int | None, answers: Answers) -> None:
    """Nothing comes back."""
