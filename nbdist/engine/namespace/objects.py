"""What a framework says of objects that are not to be pickled as they say, and of its settings."""

from __future__ import annotations

from typing import Any, Protocol


class Objects(Protocol):
    """One framework's, on one process, for as long as a namespace is on its way."""

    def reduce(self, value: Any) -> Any | None:
        """How an object is pickled, as `object.__reduce_ex__` says it; None: as the object itself says."""

    def settings(self) -> Any:
        """What the framework keeps for the process beside objects with names; pickled as they are."""

    def set(self, settings: Any) -> None:
        """Takes over what `settings` has given on another process, once all objects have come from there."""
