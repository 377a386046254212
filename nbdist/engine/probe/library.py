"""The interface through which the walk over a namespace asks a framework about objects that hold arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Protocol

Look = Callable[[Any], Iterable[tuple[str, Any]]]
"""Lists what an object holds: pairs of (the rest of the expression that reaches a value, the value)."""


class Library(Protocol):
    """Knowledge of the modules, models and containers of one framework; runs nothing that users wrote."""

    def look_into(self, bases: tuple[type, ...]) -> Look | None:
        """Return a function that lists what objects of a class hold; None if it is no container of the framework.

        Args:
          bases: The class and its bases, in order of resolution.
        """
        ...

    def is_model(self, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are models, whose variables are shown together."""
        ...

    def has_layout(self, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are models or layers, whose variables have layouts to show."""
        ...

    def holds_arrays(self, cls: type, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are known to hold arrays in attributes, as pytrees and modules do."""
        ...
