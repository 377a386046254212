"""What functions of `jax.jit` are to a new process."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

from nbdist.engine.frameworks.jax.registries import (
    Configuration,
    FlaxStates,
    Pytrees,
    no_early_pytrees,
)
from nbdist.engine.namespace.things import Mine, Things


class Objects:
    """See `nbdist.engine.namespace.objects.Objects`."""

    modules: tuple[str, ...] = ("flax.struct",)

    def reduce(self, value: Any) -> Any | None:
        """A jitted function with its attributes, which its own pickle leaves out.

        Among them are `__wrapped__` and what `lower` needs.
        """
        if type(value) is not _jitted_type():
            return None
        reduced: Any = value.__reduce_ex__(4)
        make, arguments, state = reduced[:3]
        return make, arguments, (state, dict(value.__dict__)), None, None, fill

    def settings(self) -> Any:
        """None: `things` and `Placements` have all."""
        return None

    def things(self, mine: Mine) -> Sequence[Things]:
        """See `nbdist.engine.frameworks.jax.registries`."""
        return Configuration(), Pytrees(mine), FlaxStates(mine)

    def unpickling(self) -> AbstractContextManager[object]:
        """See `nbdist.engine.frameworks.jax.registries.no_early_pytrees`."""
        return no_early_pytrees()

    def set(self, settings: Any) -> None:
        """Nothing."""


def fill(function: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """Makes an empty jitted function what it was on the other process."""
    own, attributes = state
    function.__setstate__(own)
    function.__dict__.update(attributes)


@functools.cache
def _jitted_type() -> type:
    import jax

    return type(jax.jit(lambda: None))
