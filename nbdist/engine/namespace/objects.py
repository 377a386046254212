"""Interface to a framework's objects that are not pickled in their own way, and to its settings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from nbdist.engine.namespace.things import Mine, Things


class Objects(Protocol):
    """Answers of one framework on one process, for as long as a namespace is on its way.

    Attributes:
      modules: Library modules that a new process imports first, where the other process has imported them.
    """

    modules: tuple[str, ...]

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle an object, as `object.__reduce_ex__` does; None for the object's own way."""

    def settings(self) -> Any:
        """Return what the framework keeps for the process beside objects with names; pickled as it is."""

    def set(self, settings: Any) -> None:
        """Set what `settings` has returned on another process, once all objects have come from there."""

    def things(self, mine: Mine) -> Sequence[Things]:
        """Return the user's registrations and settings in the framework that are compared one by one."""

    def unpickling(self) -> AbstractContextManager[object]:
        """Return a context that is open while classes of the user's come from another process."""
