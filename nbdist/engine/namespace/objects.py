"""What a framework says of objects that are not to be pickled as they say, and of its settings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from nbdist.engine.namespace.things import Mine, Things


class Objects(Protocol):
    """One framework's, on one process, for as long as a namespace is on its way.

    Attributes:
      modules: Those of libraries that a new process imports first, where the other one has.
    """

    modules: tuple[str, ...]

    def reduce(self, value: Any) -> Any | None:
        """How an object is pickled, as `object.__reduce_ex__` says it; None: as the object itself says."""

    def settings(self) -> Any:
        """What the framework keeps for the process beside objects with names; pickled as they are."""

    def set(self, settings: Any) -> None:
        """Takes over what `settings` has given on another process, once all objects have come from there."""

    def things(self, mine: Mine) -> Sequence[Things]:
        """What users have registered with the framework, and set in it, where each is compared by itself."""

    def unpickling(self) -> AbstractContextManager[object]:
        """Open while classes of the user's come from another process."""
