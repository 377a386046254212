"""The user's line that is being run."""

from __future__ import annotations

import linecache
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

_PACKAGE = str(Path(__file__).parent.parent)
_OTHERS = tuple(
    {_PACKAGE, *(sysconfig.get_path(name) for name in ("stdlib", "purelib", "platlib"))}
)


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a file or a cell.

    Attributes:
      file: Its name; of a cell `<cell>`.
      number: From 1.
      text: Without its indentation; empty where it cannot be read.
    """

    file: str
    number: int
    text: str

    def __str__(self) -> str:
        """`line 3 of <cell>: float(loss)`."""
        text = f": {self.text}" if self.text else ""
        return f"line {self.number} of {self.file}{text}"


def user_line() -> Line | None:
    """The innermost line that is neither nbdist's, nor the standard library's, nor an installed package's."""
    frame = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if is_users(file):
            text = linecache.getline(file, frame.f_lineno).strip()
            cell = "ipykernel" in file or file.startswith("<ipython-input")
            return Line("the cell" if cell else file, frame.f_lineno, text)
        frame = frame.f_back  # type: ignore[assignment]
    return None


def is_users(file: str) -> bool:
    """Whether a file, or a cell, is neither nbdist's, nor the standard library's, nor an installed package's."""
    return not file.startswith((*_OTHERS, "<frozen"))


def cut_to_users(trace: TracebackType | None) -> None:
    """Takes from a traceback what lies below the innermost of the user's lines."""
    last = None
    while trace is not None:
        if is_users(trace.tb_frame.f_code.co_filename):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None
