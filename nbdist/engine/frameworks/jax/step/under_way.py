"""What is computed of the programs that all processes have sent."""

from __future__ import annotations

import contextlib
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbdist.engine.frameworks.jax.step.dispatched import Dispatched


def arrays_under_way(dispatched: Dispatched, common: int, *, since: int = 0) -> list[Any]:
    """The arrays that are not computed yet, of those that programs compute.

    Args:
      dispatched: The programs.
      common: The serial of the last of them.
      since: That of the last before them.
    """
    return [array for array, serial in _under_way(dispatched) if since < serial <= common]


def serials_under_way(dispatched: Dispatched) -> set[int]:
    """Those of the programs of which an array is not computed yet."""
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
    """Calls `then` once these are computed, or failed, on a thread: nothing interrupts a wait in C++."""
    # None is kept alive by being waited for.
    references = list(map(weakref.ref, arrays))

    def wait() -> None:
        for reference in references:
            array = reference()
            if array is not None and not array.is_deleted():
                # What a program has raised is for whoever uses its arrays.
                with contextlib.suppress(Exception):
                    array.block_until_ready()
        then()

    threading.Thread(target=wait, name="nbdist-computed", daemon=True).start()


def _is_ready(array: Any) -> bool:
    """Whether its values are there, or it does not say (a typed PRNG key): then nobody waits for it alone."""
    asked = getattr(array, "is_ready", None)
    return asked is None or bool(asked())
