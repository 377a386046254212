"""Events of a session's agents, passed on to all listeners."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

from nbdist.launch.model.happenings import Happening

Listener = Callable[[Happening], None]


class AgentEvents:
    """Distributor of events of all agents of a session. Listeners run on the thread on which the event arrived."""

    def __init__(self) -> None:
        # Replaced as a whole: threads that publish meanwhile go on with the tuple they have.
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        """Call `listener` with each event from now on, after the listeners that subscribed before."""
        self._listeners = (*self._listeners, listener)

    def unsubscribe(self, listener: Listener) -> None:
        """Call `listener` no more; do nothing if it is not subscribed."""
        self._listeners = tuple(one for one in self._listeners if one != listener)

    def publish(self, event: Happening) -> None:
        """Call all listeners.

        Raises:
          Exception: A listener raised it; the others have been called all the same.
        """
        with contextlib.ExitStack() as stack:
            for listener in reversed(self._listeners):
                stack.callback(listener, event)
