"""Cursor of a terminal: carriage returns, backspaces, escape sequences and styles, applied to one stream's text.

It behaves like a terminal, as far as JupyterLab's text outputs do: the cursor moves over lines already written,
and new text replaces old text. Each line has all the styles that it needs when shown alone.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import groupby

from nbdist.view.output.entries import Display, Line, Stream, line

Style = str
"""The state to which `ESC [ … m` leads, as parameters in canonical order, such as `"1;31"`; empty for plain text.

Source: ECMA-48, Select Graphic Rendition (SGR); the codes that JupyterLab draws.
"""

RESET = "\x1b[0m"

SPLIT = re.compile(r"\x1b\[([0-9;]*)m")
"""The pattern that splits a text into plain parts and, between them, the parameters of each style."""

_KINDS = {
    **dict.fromkeys((*range(30, 38), *range(90, 98)), "fg"),
    **dict.fromkeys((*range(40, 48), *range(100, 108)), "bg"),
    **{1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"},
}
"""The style codes that switch an attribute on, with that attribute."""

_OFF = {
    **{22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",)},
    **{39: ("fg",), 49: ("bg",)},
}


@lru_cache(maxsize=256)
def after(style: Style, parameters: str) -> Style:
    """Return the style in effect after `ESC [ parameters m`; unknown codes are dropped."""
    state: dict[str, str] = {}
    parts = [*(style.split(";") if style else ()), *parameters.split(";")]
    codes = [int(part) if part.isdigit() else 0 for part in parts]
    while codes:
        code = codes.pop(0)
        if code == 0:
            state.clear()
        elif code in (38, 48):
            color = _extended(codes)
            if color:
                state["fg" if code == 38 else "bg"] = f"{code};{color}"
        elif code in _OFF:
            for kind in _OFF[code]:
                state.pop(kind, None)
        elif code in _KINDS:
            state[_KINDS[code]] = str(code)
    return ";".join(state[kind] for kind in sorted(state))


def paint(text: str, style: Style) -> str:
    """Return the text in a style that is closed at its end."""
    return f"\x1b[{style}m{text}{RESET}" if style and text else text


def plain(text: str) -> str:
    """Return the text without styles."""
    # Splitting leaves the parameters between the parts.
    return "".join(SPLIT.split(text)[::2])


def _extended(codes: list[int]) -> str | None:
    """Take the rest of a 256-color (`5;n`) or 24-bit (`2;r;g;b`) code off the list, and return it."""
    wanted = {5: 2, 2: 4}.get(codes[0] if codes else -1)
    if wanted is None or len(codes) < wanted:
        codes.clear()
        return None
    taken, codes[:wanted] = codes[:wanted], []
    return ";".join(map(str, taken))


class ScreenRow:
    """One line of a terminal, which can be overwritten: its characters, each with its style.

    A row that the cursor has left is kept only as text, and split into characters again when written to.

    Attributes:
      redrawn: Whether the cursor has moved back in the row, as for progress bars; blanks at the row's end are then
        left over from a longer text and are not shown.
      revisited: Whether the cursor has come back to the row from a line below.
      wrapped: Whether the next row continues it.
      handed: Whether a queue has it.
      whole: The digest of the several-line result that the row is part of; empty if it is part of none.
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
        self._cells: tuple[list[str], list[Style]] | None = ([], [])
        self._text = ""
        self._line: Line | None = None

    def __len__(self) -> int:
        return len(self._unfolded()[0])

    def write(self, column: int, text: str, style: Style) -> None:
        """Overwrite the row from `column` on with text that has no control characters."""
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
        """Blank the columns from `start` to before `stop`; without `stop`, cut the row at `start`."""
        chars, styles = self._unfolded()
        if stop is None:
            del chars[start:], styles[start:]
        else:
            stop = min(stop, len(chars))
            chars[start:stop] = " " * max(0, stop - start)
            styles[start:stop] = [""] * max(0, stop - start)
        self._line = None

    def fold(self) -> None:
        """Keep the row as text only, to free the memory of its single characters."""
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
            parts.append(paint("".join(chars[at:end]), style))
            at = end
        return "".join(parts)

    @property
    def blank(self) -> bool:
        """Return whether the row held a bar that has erased itself."""
        return self.redrawn and not self.text

    def line(self, *, open: bool) -> Line:
        """Return the row as it is now."""
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

    def _unfolded(self) -> tuple[list[str], list[Style]]:
        if self._cells is None:
            chars: list[str] = []
            styles: list[Style] = []
            style = ""
            for index, part in enumerate(SPLIT.split(self._text)):
                if index % 2:
                    style = after(style, part)
                else:
                    chars.extend(part)
                    styles.extend([style] * len(part))
            self._cells = (chars, styles)
        return self._cells


WIDTH = 4096
"""The most characters in a row; a longer line goes on in the next row."""

_TOKEN = re.compile(
    r"(?P<text>[^\x00-\x08\x0a-\x1f\x7f]+)|\n|\r|\x08+"
    r"|\x1b\[(?P<parameters>[0-?]{0,64})[ -/]*(?P<command>[@-~])"
    r"|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)|\x1b[ -/]*[0-~]|.",
    re.DOTALL,
)
_UNFINISHED = re.compile(r"\x1b(?:\[[0-?]{0,64}[ -/]*|\][^\x07\x1b]{0,1024}\x1b?|[ -/]*)\Z")
_MOVES = re.compile(r"[\r\n\x08]|\x1b\[[0-9]*[A-GJK]")
_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f]*\Z")
_SILENT = frozenset("\x00\x07\x0e\x0f")


class Pen:
    """The cursor of one stream of one process.

    `window` holds the newest outputs of the process in their order, with the same rows; `rows` are those of this
    stream that the cursor can still reach. The row of the cursor and those after it are *live*. `whole` is a
    digest that makes the new rows of one result compare equal only as a whole.
    """

    def __init__(self, stream: Stream, window: list[ScreenRow | Display]) -> None:
        self.stream = stream
        self.rows: list[ScreenRow] = []
        self.whole = ""
        self._window = window
        self._row = 0
        self._column = 0
        self._style: Style = ""
        self._returned = False
        self._parked = False
        self._held = ""

    @property
    def live(self) -> list[ScreenRow]:
        """The rows that may still grow or be redrawn without moving the cursor up."""
        return self.rows[self._row :]

    def plain(self, text: str) -> bool:
        """Return whether the text only appends: nothing in it or before it moves the cursor or sets colors."""
        return not self._held and not self._style and _PLAIN.match(text) is not None

    def feed(self, text: str, time: float) -> None:
        """Write the text of the process."""
        text = (self._held + text).replace("\r\n", "\n")
        unfinished = _UNFINISHED.search(text)
        self._held = unfinished[0] if unfinished else ""
        text = text[: len(text) - len(self._held)]
        if not text:
            return
        if self._parked:
            self._return(text)
        for token in _TOKEN.finditer(text):
            if token["text"]:
                self._write(token["text"], time)
            elif token["command"]:
                self._command(token["command"], token["parameters"])
            else:
                self._control(token[0], time)

    def leave(self) -> None:
        """End the present line, since another stream or a display follows.

        Ending an unfinished line keeps the order of outputs. A bar stays open: it will be redrawn below the next
        output.
        """
        if not any(row.redrawn for row in self.live):
            self.end()
        del self.rows[: self._row]
        self._row = 0
        self._parked = bool(self.rows)

    def end(self) -> None:
        """Settle all rows, so that nothing changes any more; an erased bar leaves no empty line."""
        for row in self.rows:
            row.fold()
        for row in self.live:
            if row.blank:
                self._window.remove(row)
        self.rows.clear()
        self._row = self._column = 0
        self._returned = self._parked = False

    def forget(self, row: ScreenRow) -> None:
        """Take a row out of the cursor's reach."""
        if row in self.rows:
            index = self.rows.index(row)
            del self.rows[index]
            if index < self._row:
                self._row -= 1

    def _return(self, text: str) -> None:
        self._parked = False
        if not _MOVES.match(text):
            self.end()
            return
        for row in self.rows:
            self._window.remove(row)
            self._window.append(row)

    def _current(self, time: float) -> ScreenRow:
        while self._row >= len(self.rows):
            row = ScreenRow(self.stream, time, whole=self.whole)
            self.rows.append(row)
            self._window.append(row)
        return self.rows[self._row]

    def _write(self, text: str, time: float) -> None:
        while text:
            row = self._current(time)
            if self._column >= WIDTH:
                row.wrapped = True
                self._newline(time)
                continue
            piece, text = text[: WIDTH - self._column], text[WIDTH - self._column :]
            if self._returned or self._column < len(row):
                row.redrawn = True
            row.last = time
            row.write(self._column, piece, self._style)
            self._column += len(piece)

    def _newline(self, time: float) -> None:
        self._current(time).fold()
        self._row += 1
        self._column = 0
        self._returned = False

    def _control(self, token: str, time: float) -> None:
        if token == "\n":
            self._newline(time)
        elif token == "\r":
            self._column = 0
            self._returned = True
            if self._row < len(self.rows):
                self.rows[self._row].redrawn = True
        elif token[0] == "\b":
            self._column = max(0, self._column - len(token))
        elif token[0] != "\x1b" and token not in _SILENT:
            # Binary bytes are shown as Unicode's control pictures, which every front end can draw.
            self._write("\u2421" if token == "\x7f" else chr(0x2400 + ord(token)), time)

    def _command(self, command: str, parameters: str) -> None:
        if command == "m":
            self._style = after(self._style, parameters)
        elif command in "JK":
            self._erase(command, parameters)
        elif command in "ABCDEFG" and (parameters.isdigit() or not parameters):
            self._move(command, min(int(parameters or 1), WIDTH))

    def _move(self, command: str, count: int) -> None:
        if command in "AF":
            self._row = max(0, self._row - count)
            for row in self.rows[self._row :]:
                row.revisited = True
        elif command in "BE":
            self._row = min(len(self.rows), self._row + count)
        if command in "EF":
            self._column = 0
        elif command == "C":
            self._column = min(WIDTH - 1, self._column + count)
        elif command == "D":
            self._column = max(0, self._column - count)
        elif command == "G":
            self._column = max(0, count - 1)

    def _erase(self, command: str, parameters: str) -> None:
        if self._row < len(self.rows):
            row = self.rows[self._row]
            row.redrawn = True
            if parameters in ("", "0"):
                row.erase(self._column)
            elif parameters == "1":
                row.erase(0, self._column + 1)
            else:
                row.erase(0)
        if command == "J" and parameters in ("", "0"):
            for row in self.rows[self._row + 1 :]:
                row.redrawn = True
                row.erase(0)
