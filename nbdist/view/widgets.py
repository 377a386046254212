"""Widgets that processes have displayed, shown in the notebook; equal widgets are shown once."""

from __future__ import annotations

import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakSet

from nbdist.view.widget_models import (
    Path,
    WidgetBar,
    WidgetModels,
    bar_of,
    captured_messages,
    referring,
)

if TYPE_CHECKING:
    from nbdist.view.widget import Mirror


PAST = 256
"""The most earlier states of a displayed widget that are remembered, as digests."""


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
        self, board: Widgets, process_id: int, root: str, changed: Callable[[], None]
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
        """The widget as a progress bar; None for any other widget."""
        with self.board.lock:
            return bar_of(self._models, self.root)

    def agrees(self, other: LiveWidget, now: float, fresh_s: float) -> bool:
        """Return whether both are equal now, or one was equal to the other's present state a moment ago."""
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
        """Return id and state of each of its models; a model comes after the models that it holds."""
        with self.board.lock:
            found = self._models.parts(self.root)
            return {path: (model, dict(self._models[model].state)) for path, model in found.items()}


MESSAGES = frozenset({"comm_open", "comm_msg", "comm_close"})


class Widgets:
    """The widgets of one session's processes; used from any thread.

    Args:
      clock: Returns monotonic seconds.

    Attributes:
      on_event: Called with what a person does to a widget in the notebook; raises if no process can take it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.on_event: Callable[[Event], None] | None = None
        self._models: dict[int, WidgetModels] = {}
        self._concerned: dict[tuple[int, str], WeakSet[LiveWidget]] = {}
        self._mirrors = Mirrors(self._event)

    def models_of(self, process_id: int) -> WidgetModels:
        """Return the models of one process."""
        return self._models.setdefault(process_id, WidgetModels())

    def take(self, process_id: int, message: Mapping[str, Any]) -> bool:
        """Take a process's message if it is about widgets, or is output that a widget captures.

        Returns:
          Whether it was such a message; the caller shows any other message.

        Raises:
          KeyError: The message lacks a field.
        """
        kind = message["msg_type"]
        if kind not in MESSAGES and kind not in captured_messages:
            return False
        with self.lock:
            models = self.models_of(process_id)
            if kind in MESSAGES:
                buffers = message.get("buffers") or ()
                model = models.take(kind, message["content"], buffers)
            else:
                model = models.capture(message)
                if model is None:
                    return False
            concerned = list(self._concerned.get((process_id, model or ""), ()))
            if kind == "comm_close":
                self._concerned.pop((process_id, model or ""), None)
            for one in concerned:
                before = one.models
                one.note()
                self._watch(one, one.models - before)
        # Without the lock: the functions called here take locks of their own.
        for one in concerned:
            one.changed()
        return True

    def live(self, process_id: int, root: object, changed: Callable[[], None]) -> LiveWidget | None:
        """Return a widget that a process displays; None if its state is not known.

        Args:
          process_id: The process.
          root: The id of its model.
          changed: Called after each change, on the thread that took the message.
        """
        with self.lock:
            if not isinstance(root, str) or root not in self.models_of(process_id):
                return None
            found = LiveWidget(self, process_id, root, changed)
            self._watch(found, found.models)
            return found

    def _watch(self, widget: LiveWidget, models: Iterable[str]) -> None:
        for model in models:
            key = widget.process_id, model
            self._concerned.setdefault(key, WeakSet()).add(widget)

    def show(self, widgets: Sequence[LiveWidget]) -> str:
        """Show equal widgets as one in the front ends; return the id of its model there."""
        return self._mirrors.show(widgets)

    def _event(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)


NAMESPACE = uuid.UUID("c2f6c1f0-6c3c-4d0e-9a0e-6a1f1d1b7f11")
"""The base of the ids of models here, so that one widget has the same ones whenever it is shown."""


class Mirrors:
    """The models in this kernel that stand for those of a session's processes; used from any thread.

    Args:
      act: Called with what a person does.
    """

    def __init__(self, act: Callable[[Event], None]) -> None:
        self._act = act
        self._lock = threading.RLock()
        self._models: dict[str, dict[str, Mirror]] = {}
        self._members: dict[str, tuple[LiveWidget, ...]] = {}
        self._shown: dict[str, tuple[str, int]] = {}

    def show(self, widgets: Sequence[LiveWidget]) -> str:
        """Update the models that stand for equal widgets to the widget that is furthest behind.

        Returns:
          The id of the model to display. It stays the same as long as the lowest process does.
        """
        first = min(widgets, key=lambda one: one.process_id)
        root = _name(first, ())
        with self._lock:
            if root not in self._members:
                self._close_those_taken_away()
            self._members[root] = tuple(widgets)
            source = furthest_behind(widgets)
            now = (source.root, source.changes)
            if self._shown.get(root) != now and not source.closed:
                self._follow(first, source)
                self._shown[root] = now
        return root

    def _follow(self, first: LiveWidget, source: LiveWidget) -> None:
        parts = source.parts()
        names = {model: _name(first, path) for path, (model, _) in parts.items()}
        root = _name(first, ())
        from nbdist.view.widget import Mirror

        there = self._models.setdefault(root, {})
        for path, (model, state) in parts.items():
            name, mirrored = names[model], referring(state, names)
            if name in there:
                there[name].follow(mirrored)
            else:
                there[name] = Mirror(name, mirrored, self._acting(root, path))

    def _close_those_taken_away(self) -> None:
        """Close models whose widgets all processes have closed: a loop may make thousands of bars in turn."""
        gone = [root for root, members in self._members.items() if all(m.closed for m in members)]
        for root in gone:
            for model in self._models.pop(root, {}).values():
                model.close()
            del self._members[root]
            self._shown.pop(root, None)

    def _acting(self, root: str, path: Path) -> Callable[..., None]:
        def act(data: Mapping[str, Any], buffers: Sequence[bytes]) -> None:
            parts = {one.process_id: one.parts() for one in self._members[root] if not one.closed}
            models = {p: found[path][0] for p, found in parts.items() if path in found}
            self._act(Event(models, data, buffers))

        return act


def furthest_behind(widgets: Sequence[LiveWidget]) -> LiveWidget:
    """Return the bar with the least progress, else the widget with the fewest changes; ties: lowest process."""

    def done(one: LiveWidget) -> tuple[float, int, int]:
        bar = one.bar
        return (bar.value if bar is not None else 0.0), one.changes, one.process_id

    return min(widgets, key=done)


def _name(widget: LiveWidget, path: Path) -> str:
    return uuid.uuid5(NAMESPACE, f"{widget.root} {path!r}").hex
