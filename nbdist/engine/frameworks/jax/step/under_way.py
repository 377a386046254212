"""Arrays under way: outputs of programs that are not computed yet."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbdist.engine.frameworks.jax.step.dispatched import Dispatched


def arrays_under_way(dispatched: Dispatched, common: int, *, since: int = 0) -> list[Any]:
    """Return the outputs of a range of programs that are not computed yet.

    Args:
      dispatched: The programs.
      common: The serial of the last program in the range.
      since: The serial of the last program before the range.
    """
    return [array for array, serial in _under_way(dispatched) if since < serial <= common]


def serials_under_way(dispatched: Dispatched) -> set[int]:
    """Return the serials of the programs that have an output which is not computed yet."""
    return {serial for _, serial in _under_way(dispatched)}


def _under_way(dispatched: Dispatched) -> Iterator[tuple[Any, int]]:
    for array, (generation, serial, _) in dispatched.origins:
        if (
            generation == dispatched.generation
            and serial > 0
            and not array.is_deleted()  # jax 0.10.0 ends the process where a deleted one is asked for more
            and not _is_ready(array)
        ):
            yield array, serial


def wait_for_arrays(arrays: Iterable[Any], then: Callable[[], None]) -> None:
    """Call `then`, on a new thread, once these arrays are computed or failed: no wait in C++ is interruptible."""
    # Waiting keeps no array alive.
    references = list(map(weakref.ref, arrays))

    def wait() -> None:
        for reference in references:
            array = reference()
            if array is not None and not array.is_deleted():
                # The error of a program is raised where its arrays are used.
                with contextlib.suppress(Exception):
                    array.block_until_ready()
        then()

    threading.Thread(target=wait, name="nbdist-computed", daemon=True).start()


def _is_ready(array: Any) -> bool:
    """Return whether an array has its values; True for typed PRNG keys, which do not say: none is waited for."""
    asked = getattr(array, "is_ready", None)
    return asked is None or bool(asked())
