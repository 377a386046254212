"""The frames of the last error: what a debugger looks at afterwards, also after a repair."""

from __future__ import annotations

import contextlib
import inspect
import sys
import traceback
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import FrameType

from nbdist.engine.cell.code_owners import CodeOwners
from nbdist.engine.frameworks import frameworks
from nbdist.engine.frameworks.jax.repair.become import repoint_variables
from nbdist.engine.frameworks.jax.repair.twins import Twins

OWN = str(Path(__file__).parents[4])


class LastFrames:
    """Those of the person's own functions; what the others refer to is freed, their text has been shown.

    Frames of frameworks refer to programs and buffers of the back end that goes, which nothing could re-point.
    """

    def __init__(self) -> None:
        self._kept: list[FrameType] = []
        self._errors = list(_chain(getattr(sys, "last_value", None)))
        for error in self._errors:
            for frame, _ in traceback.walk_tb(error.__traceback__):
                if _is_the_users(frame.f_code.co_filename):
                    self._kept.append(frame)
                else:
                    with contextlib.suppress(
                        RuntimeError
                    ):  # it still runs, as what runs cells does
                        frame.clear()

    def repoint(self, twins: Twins) -> None:
        """Re-points what is kept; `become` leaves frames alone, since most of them run."""
        for error in self._errors:
            error.args = twins.of(error.args)
        for frame in self._functions():
            repoint_variables(frame, twins)

    def _functions(self) -> Iterable[FrameType]:
        # The variables of a cell itself are the namespace.
        return (one for one in self._kept if one.f_code.co_flags & inspect.CO_OPTIMIZED)


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        one = waiting.pop()
        if one is not None and id(one) not in seen:
            seen.add(id(one))
            yield one
            waiting += [one.__cause__, one.__context__]


def _is_the_users(filename: str) -> bool:
    installed = "site-packages" in filename or filename.startswith(OWN)
    return not installed and CodeOwners(frameworks()).side(filename) == "user"
