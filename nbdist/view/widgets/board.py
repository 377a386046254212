"""The widgets of all processes of a session: what they are like now, and who is called when they change."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

from nbdist.view.widgets.live import Event, LiveWidget
from nbdist.view.widgets.models import WidgetModels, captured_messages

if TYPE_CHECKING:
    from nbdist.view.widgets.mirror import Mirrors

MESSAGES = frozenset({"comm_open", "comm_msg", "comm_close"})


class Widgets:
    """Of one session; from any thread.

    Args:
      clock: Seconds that never go back.

    Attributes:
      on_event: Takes what a person does to a widget in the notebook; raises where the processes cannot have it.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.on_event: Callable[[Event], None] | None = None
        self._models: dict[int, WidgetModels] = {}
        self._concerned: dict[tuple[int, str], WeakSet[LiveWidget]] = {}
        self._mirrors: Mirrors | None = None

    def models_of(self, process_id: int) -> WidgetModels:
        """The models of one process."""
        return self._models.setdefault(process_id, WidgetModels())

    def take(self, process_id: int, message: Mapping[str, Any]) -> bool:
        """Takes a message of a process that is about widgets, or what one of them captures.

        Returns:
          Whether it was such a message; any other is to be shown.

        Raises:
          KeyError: It lacks something.
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
        # Without the lock: what is called has locks of its own.
        for one in concerned:
            one.changed()
        return True

    def live(self, process_id: int, root: object, changed: Callable[[], None]) -> LiveWidget | None:
        """A widget that a process displays; None where it is not known what it is like.

        Args:
          process_id: Of the process.
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
        """Has the notebook's front ends show widgets that are alike as one; answers the id of its model there."""
        if self._mirrors is None:
            from nbdist.view.widgets.mirror import Mirrors

            self._mirrors = Mirrors(self._event)
        return self._mirrors.show(widgets)

    def _event(self, event: Event) -> None:
        if self.on_event is not None:
            self.on_event(event)
