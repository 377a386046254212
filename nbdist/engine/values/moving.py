"""The value that is on its way between a kernel and this process: one at a time."""

from __future__ import annotations

from nbdist.engine.values.incoming import Incoming
from nbdist.engine.values.outgoing import Outgoing
from nbdist.errors import StaleError


class Moving:
    """The value that is on its way, if one is; of a resident."""

    def __init__(self) -> None:
        self._token = ""
        self._held: Outgoing | Incoming | None = None

    def begin(self, token: str, held: Outgoing | Incoming) -> None:
        """Holds a value; lets go of one that its kernel has left behind."""
        self.end()
        self._token, self._held = token, held

    def outgoing(self, token: str) -> Outgoing:
        """The one that is sent.

        Raises:
          StaleError: It is not held any longer.
        """
        if self._token != token or not isinstance(self._held, Outgoing):
            raise _left()
        return self._held

    def incoming(self, token: str) -> Incoming:
        """The one that is received.

        Raises:
          StaleError: It is not held any longer.
        """
        if self._token != token or not isinstance(self._held, Incoming):
            raise _left()
        return self._held

    def end(self, token: str | None = None) -> None:
        """Lets go of what is held; with `token`, of this one only."""
        if token in (None, self._token) and self._held is not None:
            self._held.close()
            self._held = None


def _left() -> StaleError:
    return StaleError(
        "The processes were repaired, or another kernel moved values, while these were on their way. Nothing "
        "here was changed; try again."
    )
