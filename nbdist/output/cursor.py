"""Carriage return, backspace and the cursor's escape sequences, applied to the text of one stream.

The behavior is that of a terminal as far as JupyterLab's text outputs follow it: the cursor moves
over lines already written, and new text replaces the old.
"""

from __future__ import annotations

import re

from nbdist.output import sgr
from nbdist.output.entries import Display, Stream
from nbdist.output.row import Row

WIDTH = 4096
"""Longest row in characters; a longer line goes on in the next row."""

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

    `window` holds the newest outputs of the process in their order and shares its rows; `rows` are those of this
    stream that the cursor can still reach. Rows from the cursor's on are *live*. `whole` is a digest that makes
    new rows of one result compare as one.
    """

    def __init__(self, stream: Stream, window: list[Row | Display]) -> None:
        self.stream = stream
        self.rows: list[Row] = []
        self.whole = ""
        self._window = window
        self._row = 0
        self._column = 0
        self._style: sgr.Style = ""
        self._returned = False
        self._parked = False
        self._held = ""

    @property
    def live(self) -> list[Row]:
        """Rows that may still grow or be redrawn without moving the cursor up."""
        return self.rows[self._row :]

    def plain(self, text: str) -> bool:
        """Return whether the text would only append: nothing in it or before it moves the cursor or colors."""
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
        """Turn to another stream or a display.

        An unfinished line is ended, so that the order is kept. A bar stays open: it would be redrawn below what
        comes.
        """
        if not any(row.redrawn for row in self.live):
            self.end()
        del self.rows[: self._row]
        self._row = 0
        self._parked = bool(self.rows)

    def end(self) -> None:
        """Settle everything: nothing changes any more. A bar that was wiped out leaves no empty line."""
        for row in self.rows:
            row.fold()
        for row in self.live:
            if row.blank:
                self._window.remove(row)
        self.rows.clear()
        self._row = self._column = 0
        self._returned = self._parked = False

    def forget(self, row: Row) -> None:
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

    def _current(self, time: float) -> Row:
        while self._row >= len(self.rows):
            row = Row(self.stream, time, whole=self.whole)
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
            # Binary bytes show as the control pictures of Unicode, which every front end can draw.
            self._write("\u2421" if token == "\x7f" else chr(0x2400 + ord(token)), time)

    def _command(self, command: str, parameters: str) -> None:
        if command == "m":
            self._style = sgr.after(self._style, parameters)
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
