"""Owners of the code on a stack: a framework, the standard library, IPython or the user.

`CodeOwners` tells from a file's name whose code it is: a cell's file, a file in the package of a framework, in the
standard library or IPython; every other file is the user's.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from types import FrameType
from typing import NamedTuple, Protocol


class Packaged(Protocol):
    """A framework, as far as its modules are concerned."""

    @property
    def packages(self) -> tuple[str, ...]:
        """The first parts of the names of its modules."""


def packages_of(frameworks: Iterable[Packaged]) -> frozenset[str]:
    """Return the packages of all these frameworks.

    They tell whose code a file is, and whose classes are arrays and containers.
    """
    return frozenset(name for one in frameworks for name in one.packages)


CELL_FILE = re.compile(r"[/\\]ipykernel_\d+[/\\][^/\\]+\.py$|^<ipython-input-|^<nbdist cell ")
"""The pattern of the file names that ipykernel, IPython and nbdist give to the code of a cell."""

STANDARD_LIBRARY = os.__file__.rpartition(os.sep)[0] + os.sep
"""The folder of the standard library, with a separator at its end."""


class StackEntry(NamedTuple):
    """One entry of a stack; `line` is 1-based, None where the instruction belongs to no line."""

    filename: str
    function: str
    line: int | None


Stack = tuple[StackEntry, ...]
"""The entries of a stack, innermost first."""


class Owner(Packaged, Protocol):
    """A framework, as the owner of code."""

    @property
    def waits(self) -> Mapping[tuple[str, str], str]:
        """Functions of nbdist that poll, by file name and name; the innermost frame may then be anybody's.

        The value is "framework" for a wait in the framework's place, "agreement" for a wait for other processes.
        """

    def is_compiling(self, path: str, function: str, /) -> bool:
        """Return whether a function belongs to tracing, lowering or compilation.

        Args:
          path: The path of the function's file in the folder of the first of `packages`, with slashes.
          function: The function's name.
        """
        ...


class CodeOwners:
    """The test of whose code a file or stack is, given these frameworks."""

    def __init__(self, frameworks: Iterable[Owner]) -> None:
        self._frameworks = tuple(frameworks)
        self._packages = tuple(sorted(packages_of(self._frameworks)))
        self._waits = {at: kind for one in self._frameworks for at, kind in one.waits.items()}

    def side(self, filename: str) -> str:
        """Return the owner of a file's code: "framework", "library" or "user"."""
        if is_cell_file(filename):
            return "user"
        if filename.startswith(folders(*self._packages)):
            return "framework"
        if _is_kernel_file(filename) or filename.startswith("<frozen "):
            return "library"
        standard = filename.startswith(STANDARD_LIBRARY) and "site-packages" not in filename
        return "library" if standard else "user"

    def wait(self, stack: Stack) -> str | None:
        """Return the kind of nbdist's own wait that a stack passes through; None where it passes through none."""
        found = (self._waits.get((filename, function)) for filename, function, _ in stack)
        return next(filter(None, found), None)

    def is_compiling(self, stack: Stack) -> bool:
        """Return whether a stack passes through a framework's tracing, lowering or compilation."""
        for framework in self._frameworks:
            for folder in folders(framework.packages[0]):
                for filename, function, _ in stack:
                    if filename.startswith(folder):
                        path = filename[len(folder) :].replace(os.sep, "/")
                        if framework.is_compiling(path, function):
                            return True
        return False


def folders(*packages: str) -> tuple[str, ...]:
    """Return the folders, each ending in a separator, of those packages that have been imported."""
    files = (getattr(sys.modules.get(name), "__file__", None) for name in packages)
    return tuple(file.rpartition(os.sep)[0] + os.sep for file in files if file)


def outside(*packages: str) -> int:
    """Return the `stacklevel` at which the caller's warning names the first frame outside these packages."""
    own = folders(*packages)
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(own):
        frame, level = frame.f_back, level + 1
    return level


def is_cell_file(filename: str) -> bool:
    """Return whether code of this file name was compiled from a cell."""
    return CELL_FILE.search(filename) is not None


def _is_kernel_file(filename: str) -> bool:
    return not {"IPython", "ipykernel", "ipyparallel", "zmq"}.isdisjoint(PurePath(filename).parts)
