"""What the agents of a session report, passed on to all who have subscribed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from nbdist.launch.model.happenings import Happening

Listener = Callable[[Happening], None]


class AgentEvents:
    """One for all agents of a session. Listeners are called on the thread on which the event arrived."""

    def __init__(self) -> None:
        # Replaced as a whole: threads that publish meanwhile go on with the one they have.
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        """Has `listener` called with each event from now on, after those that have subscribed before."""
        self._listeners = (*self._listeners, listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Has `listener` called no more; nothing where it is not subscribed."""
        self._listeners = tuple(one for one in self._listeners if one != listener)

    def publish(self, event: Happening) -> None:
        """Calls all listeners.

        Raises:
          Exception: What a listener has raised; the others have been called all the same.
        """
        with contextlib.ExitStack() as stack:
            for listener in reversed(self._listeners):
                stack.callback(listener, event)
