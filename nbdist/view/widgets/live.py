"""A widget that one process has displayed, as it is now, and a person's actions on it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from nbdist.view.widgets.models import WidgetBar, WidgetModels, bar_of

PAST = 256
"""The most earlier states of a displayed widget that are remembered, as digests."""


class Board(Protocol):
    """The widgets of all processes; `nbdist.view.widgets.board.Widgets` is one."""

    clock: Callable[[], float]
    lock: threading.RLock

    def models_of(self, process_id: int) -> WidgetModels:
        """Return the models of one process."""

    def show(self, widgets: Sequence[LiveWidget]) -> str:
        """Show equal widgets as one; return the id of its model."""


class Event(NamedTuple):
    """A person's action on a widget: the model's id by process, and the data and buffers of the message."""

    models: Mapping[int, str]
    data: Mapping[str, Any]
    buffers: Sequence[bytes]


class LiveWidget:
    """A widget that one process has displayed, as it is now.

    Attributes:
      process_id: The process.
      root: The id of its model.
      born: A digest of its state when it was displayed.
      changed_at: When it changed last, by `clock`.
      changes: How often it has changed since.
    """

    def __init__(
        self, board: Board, process_id: int, root: str, changed: Callable[[], None]
    ) -> None:
        self.board = board
        self.process_id = process_id
        self.root = root
        self.changed = changed
        self.changes = 0
        self.changed_at = board.clock()
        self._models = board.models_of(process_id)
        self._ids = frozenset(self._models.parts(root).values())
        self.born = self.digest = self._models.digest(root)
        self._past: deque[bytes] = deque([self.born], maxlen=PAST)

    @property
    def closed(self) -> bool:
        """Return whether the process has removed it."""
        return self.root not in self._models

    @property
    def bar(self) -> WidgetBar | None:
        """The progress bar that it is; None for any other widget."""
        with self.board.lock:
            return bar_of(self._models, self.root)

    def agrees(self, other: LiveWidget, now: float, fresh_s: float) -> bool:
        """Return whether both are equal now, or one has just been what the other is."""
        if self.digest == other.digest:
            return True
        if now - max(self.changed_at, other.changed_at) >= fresh_s:
            return False
        return self.digest in other._past or other.digest in self._past

    @property
    def models(self) -> frozenset[str]:
        """The ids of the models that it consists of."""
        return self._ids

    def note(self) -> None:
        """Note a change of one of its models."""
        if self.closed:
            return
        self._ids = frozenset(self._models.parts(self.root).values())
        self.digest = self._models.digest(self.root)
        self._past.append(self.digest)
        self.changes += 1
        self.changed_at = self.board.clock()

    def parts(self) -> dict[tuple[str | int, ...], tuple[str, dict[str, Any]]]:
        """Return id and state of each of its models, parts before the models that hold them."""
        with self.board.lock:
            found = self._models.parts(self.root)
            return {path: (model, dict(self._models[model].state)) for path, model in found.items()}
