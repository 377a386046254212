"""What functions of `jax.jit` are to a new process."""

from __future__ import annotations

import functools
from typing import Any


class Objects:
    """See `nbdist.engine.namespace.objects.Objects`."""

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
        """None: `Placements` has those that belong to arrays and devices, and JAX has no others."""
        return None

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
