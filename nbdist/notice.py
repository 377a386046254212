"""`Notice`: what a person is told when something has gone wrong, or was put right, as data.

One notice is the text of an error in a notebook or terminal, a section of the side panel, and JSON for programs.

Source: imports nothing outside the standard library, since engines import it too.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something a person should read now: at most three lines, the rest only for those who ask.

    Attributes:
      level: `bad` for what stops the work.
      title: What happened, where, and at which line.
      text: What it means for the variables, or for the session.
      do: What to type; empty if nothing is needed.
      details: Further lines.
      code: The kind, such as `raised`, `ended` or `repaired`, for programs that read it.
      lost: The paths of the arrays that were lost.
    """

    level: Literal["warn", "bad"]
    title: str
    text: str
    do: str = ""
    details: tuple[str, ...] = ()
    code: str = ""
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the lines without the details."""
        return "\n".join(line for line in (self.title, self.text, self.do) if line)
