"""The states in the life of a session's engines, and the changes from one to another."""

from __future__ import annotations

from enum import Enum

from nbdist.errors import SessionError


class EngineState(Enum):
    """Where a group of engines is in its life."""

    STARTING = "starting"
    """They are being connected, or joined; cells cannot be sent yet."""

    RUNNING = "running"
    """Cells can be sent."""

    REPAIRING = "repairing"
    """They are being brought in step again."""

    ENDED = "ended"
    """They were stopped, or this kernel has left them."""

    def to(self, other: EngineState) -> EngineState:
        """The other state, where it may follow this one.

        Raises:
          SessionError: There is none.
        """
        if other is not self and other not in _WAYS[self]:
            raise SessionError(f"The session is {self.value}, and cannot be {other.value} now.")
        return other


_WAYS = {
    EngineState.STARTING: {EngineState.RUNNING, EngineState.ENDED},
    EngineState.RUNNING: {EngineState.REPAIRING, EngineState.ENDED},
    EngineState.REPAIRING: {EngineState.RUNNING, EngineState.ENDED},
    EngineState.ENDED: set(),
}
