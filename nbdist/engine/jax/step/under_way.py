"""What is computed of the programs that all processes have sent."""

from __future__ import annotations

from typing import Any

from nbdist.engine.jax.step.dispatched import Dispatched


def arrays_under_way(dispatched: Dispatched, common: int) -> int:
    """How many arrays are not computed yet, of those that programs up to the serial `common` compute."""
    return sum(
        origin[0] == dispatched.generation
        and 0 < origin[1] <= common
        and not array.is_deleted()  # jax 0.10.0 ends the process where a deleted one is asked for more
        and not _is_ready(array)
        for array, origin in dispatched.origins
    )


def _is_ready(array: Any) -> bool:
    """Whether its values are there, or it does not say (a typed PRNG key): then nobody waits for it alone."""
    asked = getattr(array, "is_ready", None)
    return asked is None or bool(asked())
