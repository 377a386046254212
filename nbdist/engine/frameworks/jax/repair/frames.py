"""Frames of the last error, which a debugger can look at also after a repair."""

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
    """The frames of the user's own functions in the last error; all others are cleared, their text has been shown.

    Frames of frameworks refer to programs and buffers of the old back end, which cannot be re-pointed.
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
                    ):  # the frame still runs, as those that run cells do
                        frame.clear()

    def repoint(self, twins: Twins) -> None:
        """Re-point the kept errors and frames; `become` changes no frames, since most of them run."""
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
