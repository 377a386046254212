"""Objects of JAX on their way to a new process: jitted functions and registrations."""

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
    """Answers about JAX's objects and registrations."""

    modules: tuple[str, ...] = ("flax.struct",)

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle a jitted function with its attributes, which its own pickle leaves out.

        Among the attributes are `__wrapped__` and those that `lower` needs.
        """
        if type(value) is not _jitted_type():
            return None
        reduced: Any = value.__reduce_ex__(4)
        make, arguments, state = reduced[:3]
        return make, arguments, (state, dict(value.__dict__)), None, None, fill

    def settings(self) -> Any:
        """Return None: `things` and `Placements` have all settings."""
        return None

    def things(self, mine: Mine) -> Sequence[Things]:
        """Return JAX's configuration, the user's pytrees, and how Flax saves the user's classes."""
        return Configuration(), Pytrees(mine), FlaxStates(mine)

    def unpickling(self) -> AbstractContextManager[object]:
        """Return a context in which subclasses of `flax.struct.PyTreeNode` are not registered as they are made."""
        return no_early_pytrees()

    def set(self, settings: Any) -> None:
        """Do nothing: `settings` returns None."""


def fill(function: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """Give an empty jitted function the state and the attributes it had on the other process."""
    own, attributes = state
    function.__setstate__(own)
    function.__dict__.update(attributes)


@functools.cache
def _jitted_type() -> type:
    import jax

    return type(jax.jit(lambda: None))
