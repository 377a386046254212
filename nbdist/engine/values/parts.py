"""The questions about a value's parts that nbdist asks each imported framework."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from nbdist.engine.values.arrays import OfferedArray

Children = Iterable[tuple[str, Any]]
"""The contents of a container: pairs of (the rest of the expression that reaches a value, the value)."""

OfferArray = Callable[[Any, str], OfferedArray | None]
"""A function of a value and its path; returns the offer of a framework's own array, None for anything else."""


class Parts(Protocol):
    """A framework, as far as it can take values apart; `nbdist.engine.frameworks.framework.Framework` has more."""

    def unwrapped(self, value: Any) -> Any:
        """Return the array for a variable that is named by itself; anything else as it is."""
        ...

    def array_of(self, value: Any) -> Any:
        """Return the array for a variable wherever it is met; anything else as it is."""
        ...

    def stand_in(self, value: object) -> object | None:
        """Return what is sent in place of an object; None: the object itself."""
        ...

    def children(self, value: object) -> Children | None:
        """Return what a container of the framework holds; None for any other object."""
        ...

    def model_digest(self, value: object, path: str, offer_array: OfferArray) -> str | None:
        """Return a digest, equal for models of equal variables; None for any other object."""
        ...


def array_of(frameworks: Sequence[Parts], value: Any) -> Any:
    """Return the array that a variable of one of these frameworks stands for; anything else as it is."""
    for framework in frameworks:
        value = framework.array_of(value)
    return value


def stand_in(frameworks: Sequence[Parts], value: object) -> object | None:
    """Return what one of these frameworks sends in place of an object; None: the object itself."""
    found = (framework.stand_in(value) for framework in frameworks)
    return next((one for one in found if one is not None), None)
