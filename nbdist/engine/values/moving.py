"""The value that is on its way between a kernel and this process: one at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from nbdist.contract.calls.values import OfferedBox, Room, Spot
from nbdist.contract.memory_address import MemoryAddress
from nbdist.errors import StaleError


class Held:
    """A value on its way, held from a kernel's first message until all is moved or the kernel gives up."""

    def close(self) -> None:
        """Drop everything that is held."""
        raise NotImplementedError


class Source(Held):
    """Arrays that a kernel takes from this process."""

    def take(self, boxes: Sequence[OfferedBox]) -> bytes:
        """Return the bytes of parts of arrays, one behind the other."""
        raise NotImplementedError


class Sink(Held):
    """Arrays that a kernel brings to this process."""

    def describe(self) -> Room:
        """Return which parts of each array are wanted, the available memory, and the groups that limit it."""
        raise NotImplementedError

    def share(self, sizes: Sequence[int], spots: Sequence[Sequence[Spot]]) -> list[MemoryAddress]:
        """Make memories that messages are to fill.

        Args:
          sizes: The size of each, in bytes.
          spots: Where each piece of each array that is wanted here will lie.

        Returns:
          Their addresses; none if other processes cannot have them.
        """
        raise NotImplementedError

    def put(self, memory: int, at: int, data: Any) -> None:
        """Copy bytes into a memory made here, `at` bytes from its start."""
        raise NotImplementedError


H = TypeVar("H", bound=Held)


class Moving:
    """The holder of the one value that is on its way to or from an engine, if there is one."""

    def __init__(self) -> None:
        self._token = ""
        self._held: Held | None = None

    def begin(self, token: str, held: Held) -> None:
        """Hold a value; first drop what its kernel has left behind."""
        self.end()
        self._token, self._held = token, held

    def held(self, token: str, kind: type[H]) -> H:
        """Return the value that is held under this token.

        Raises:
          StaleError: It is held no longer.
        """
        if self._token != token or not isinstance(self._held, kind):
            raise StaleError(
                "The processes were repaired, or another kernel moved values, while these were on their way. "
                "Nothing here was changed; try again."
            )
        return self._held

    def end(self, token: str | None = None) -> None:
        """Drop the value that is held; with `token`, only the value of this token."""
        if token in (None, self._token) and self._held is not None:
            self._held.close()
            self._held = None
