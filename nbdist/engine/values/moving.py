"""What is on its way between a kernel and this process: one thing at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from nbdist.contract.calls.values import OfferedBox, Room, Spot
from nbdist.contract.memory_address import MemoryAddress
from nbdist.errors import StaleError


class Held:
    """Held from the first message of a kernel until all has been moved, or the kernel has given up."""

    def close(self) -> None:
        """Lets go of all it holds."""
        raise NotImplementedError


class Source(Held):
    """Arrays that a kernel takes from here."""

    def take(self, boxes: Sequence[OfferedBox]) -> bytes:
        """The bytes of parts of arrays, one behind the other."""
        raise NotImplementedError


class Sink(Held):
    """Arrays that a kernel brings here."""

    def describe(self) -> Room:
        """Which parts of each array are wanted; how much memory is available, and to whom its limit applies."""
        raise NotImplementedError

    def share(self, sizes: Sequence[int], spots: Sequence[Sequence[Spot]]) -> list[MemoryAddress]:
        """Makes memories, which messages are to fill.

        Args:
          sizes: Of each, in bytes.
          spots: Where each piece of each array that is wanted here will lie.

        Returns:
          Their addresses; none where other processes cannot have them.
        """
        raise NotImplementedError

    def put(self, memory: int, at: int, data: Any) -> None:
        """Takes bytes into a memory made here, `at` bytes from its start."""
        raise NotImplementedError


H = TypeVar("H", bound=Held)


class Moving:
    """What is on its way, if something is; of a resident."""

    def __init__(self) -> None:
        self._token = ""
        self._held: Held | None = None

    def begin(self, token: str, held: Held) -> None:
        """Holds something; lets go of what its kernel has left behind."""
        self.end()
        self._token, self._held = token, held

    def held(self, token: str, kind: type[H]) -> H:
        """What is held under this token.

        Raises:
          StaleError: It is not any longer.
        """
        if self._token != token or not isinstance(self._held, kind):
            raise StaleError(
                "The processes were repaired, or another kernel moved values, while these were on their way. "
                "Nothing here was changed; try again."
            )
        return self._held

    def end(self, token: str | None = None) -> None:
        """Lets go of what is held; with `token`, of this one only."""
        if token in (None, self._token) and self._held is not None:
            self._held.close()
            self._held = None
