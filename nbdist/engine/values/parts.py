"""What taking a value apart asks of the frameworks that have been imported."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from nbdist.engine.values.arrays import OfferedArray

Children = Iterable[tuple[str, Any]]
"""What a container holds: (the rest of the expression that reaches it, the value)."""

OfferArray = Callable[[Any, str], OfferedArray | None]
"""What a framework offers of an array of its own, by its path; None for anything else."""


class Parts(Protocol):
    """See `nbdist.engine.frameworks.framework.Framework`, which has more."""

    def unwrapped(self, value: Any) -> Any:
        """The array that a variable stands for when it is named by itself; anything else as it is."""
        ...

    def array_of(self, value: Any) -> Any:
        """The array that a variable stands for wherever it is met; anything else as it is."""
        ...

    def stand_in(self, value: object) -> object | None:
        """What is sent in place of an object; None: the object itself."""
        ...

    def children(self, value: object) -> Children | None:
        """What a container holds; None for what is none."""
        ...

    def model_digest(self, value: object, path: str, offer_array: OfferArray) -> str | None:
        """Equal for models of the same variables with equal values; None for what is no model."""
        ...


def array_of(frameworks: Sequence[Parts], value: Any) -> Any:
    """The array that a variable of one of these stands for; anything else as it is."""
    for framework in frameworks:
        value = framework.array_of(value)
    return value


def stand_in(frameworks: Sequence[Parts], value: object) -> object | None:
    """What one of these has sent in place of an object; None: the object itself."""
    found = (framework.stand_in(value) for framework in frameworks)
    return next((one for one in found if one is not None), None)
