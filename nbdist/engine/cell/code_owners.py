"""Owners of the code on a stack: the framework, the standard library or IPython, or the user."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable, Mapping
from pathlib import PurePath
from types import FrameType
from typing import NamedTuple, Protocol

from nbdist.engine.cell.packages import packages_of

CELL_FILE = re.compile(r"[/\\]ipykernel_\d+[/\\][^/\\]+\.py$|^<ipython-input-|^<nbdist cell ")
"""File names that ipykernel, IPython and nbdist give to the code of a cell."""

STANDARD_LIBRARY = os.__file__.rpartition(os.sep)[0] + os.sep


class Line(NamedTuple):
    """One entry of a stack; `line` is 1-based, None where the instruction belongs to no line."""

    filename: str
    function: str
    line: int | None


Stack = tuple[Line, ...]
"""Entries, innermost first."""


class Owner(Protocol):
    """A framework, as the owner of code.

    `packages`: the first parts of the names of its modules.

    `waits`: functions of nbdist that poll, by file name and name: "framework" where the framework would wait,
    "agreement" for other processes. Since they poll, the innermost frame may be anybody's.
    """

    packages: tuple[str, ...]
    waits: Mapping[tuple[str, str], str]

    def is_compiling(self, path: str, function: str) -> bool:
        """Return whether a function belongs to tracing, lowering or compilation.

        Args:
          path: Of the function's file, within the folder of the first of `packages`, with slashes.
          function: Its name.
        """
        ...


class CodeOwners:
    """Test of whose code a file or stack is, given these frameworks."""

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
