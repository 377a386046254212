"""What the walk over a namespace asks of a framework about objects that hold arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

Look = Callable[[Any], Iterable[tuple[str, Any]]]
"""Lists what an object holds: (the rest of the expression that reaches it, the value)."""


class Library(Protocol):
    """Knows the modules, models and containers of one framework; runs nothing that users wrote."""

    def look_into(self, bases: tuple[type, ...]) -> Look | None:
        """How to list what objects of a class hold, where the class is one of the framework's containers.

        Args:
          bases: The class and its bases, in order of resolution.
        """
        ...

    def is_model(self, bases: tuple[type, ...]) -> bool:
        """Whether objects of a class are models, whose variables are shown together."""
        ...

    def has_layout(self, bases: tuple[type, ...]) -> bool:
        """Whether objects of a class are models or layers, each of whose variables has a layout to be shown."""
        ...

    def holds_arrays(self, cls: type, bases: tuple[type, ...]) -> bool:
        """Whether objects of a class are known to hold arrays in their attributes, as pytrees and modules do."""
        ...
