"""One line of a terminal, that can be written over."""

from __future__ import annotations

from itertools import groupby

from nbdist.output import sgr
from nbdist.output.entries import Line, Stream, line


class Row:
    """The characters of one line, each with its style.

    A row the cursor has left is kept as text alone and unfolds again when it is written to.

    Attributes:
      redrawn: Something went back in it, as progress bars do; blanks at its end are then the
        traces of a longer text and are not shown.
      revisited: The cursor came back to it from a line below.
      wrapped: The next row continues it.
      handed: A queue has it.
      whole: The digest of the result of several lines that it is a line of, else empty.
    """

    __slots__ = (
        "_cells",
        "_line",
        "_text",
        "handed",
        "last",
        "redrawn",
        "revisited",
        "stream",
        "time",
        "whole",
        "wrapped",
    )

    def __init__(self, stream: Stream, time: float, *, whole: str = "") -> None:
        self.stream = stream
        self.time = self.last = time
        self.redrawn = False
        self.revisited = False
        self.wrapped = False
        self.handed = False
        self.whole = whole
        self._cells: tuple[list[str], list[sgr.Style]] | None = ([], [])
        self._text = ""
        self._line: Line | None = None

    def __len__(self) -> int:
        return len(self._unfolded()[0])

    def write(self, column: int, text: str, style: sgr.Style) -> None:
        """Puts the text, free of control characters, over what is at `column` and after."""
        chars, styles = self._unfolded()
        missing = column - len(chars)
        if missing > 0:
            chars.extend(" " * missing)
            styles.extend([""] * missing)
        stop = column + len(text)
        chars[column:stop] = text
        styles[column:stop] = [style] * len(text)
        self._line = None

    def erase(self, start: int, stop: int | None = None) -> None:
        """Blanks the columns from `start` to before `stop`; without it, cuts the row there."""
        chars, styles = self._unfolded()
        if stop is None:
            del chars[start:], styles[start:]
        else:
            stop = min(stop, len(chars))
            chars[start:stop] = " " * max(0, stop - start)
            styles[start:stop] = [""] * max(0, stop - start)
        self._line = None

    def fold(self) -> None:
        """Gives up the memory of the single characters."""
        self._text = self.text
        self._cells = None

    @property
    def text(self) -> str:
        """The row as text that opens and closes its own styles."""
        if self._cells is None:
            return self._text
        chars, styles = self._cells
        stop = len(chars)
        while self.redrawn and stop and chars[stop - 1] == " ":
            stop -= 1
        if not any(styles):
            return "".join(chars[:stop])
        parts = []
        at = 0
        for style, group in groupby(styles[:stop]):
            end = at + len(list(group))
            parts.append(sgr.paint("".join(chars[at:end]), style))
            at = end
        return "".join(parts)

    @property
    def blank(self) -> bool:
        """Whether a bar was here and has wiped itself out."""
        return self.redrawn and not self.text

    def line(self, *, open: bool) -> Line:
        """The row as it is now."""
        if self._line is None or self._line.open != open or self._line.wrapped != self.wrapped:
            self._line = line(
                self.stream,
                self.text,
                self.time,
                open=open,
                wrapped=self.wrapped,
                whole=self.whole,
                last=self.last,
            )
        return self._line

    def _unfolded(self) -> tuple[list[str], list[sgr.Style]]:
        if self._cells is None:
            chars: list[str] = []
            styles: list[sgr.Style] = []
            style = ""
            for index, part in enumerate(sgr.SPLIT.split(self._text)):
                if index % 2:
                    style = sgr.after(style, part)
                else:
                    chars.extend(part)
                    styles.extend([style] * len(part))
            self._cells = (chars, styles)
        return self._cells
