"""Limits of the output that is shown: how much of each process is kept, and how long processes may differ."""

from __future__ import annotations

from dataclasses import dataclass

from nbdist.view.output.entries import Display, Entry, Line

_SHOWN_LINES = 8000
_SHOWN_CHARACTERS = 192 << 10
_SHOWN_DISPLAY_CHARACTERS = 128 << 20
"""The most that a cell shows of all processes together: lines, their characters, and those of displays."""

_TAIL = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """The most lines, characters of text, displays, and characters of displays.

    `one_display` bounds the characters of a single display.
    """

    lines: int
    characters: int
    displays: int
    display_characters: int
    one_display: int

    @classmethod
    def for_processes(cls, count: int) -> Limits:
        """Return the limits for each of `count` processes: together they fill what a cell can show."""
        return cls(
            lines=max(20, _SHOWN_LINES // count),
            characters=max(2000, _SHOWN_CHARACTERS // count),
            displays=40,
            display_characters=max(4 << 20, _SHOWN_DISPLAY_CHARACTERS // count),
            one_display=max(1 << 20, _SHOWN_DISPLAY_CHARACTERS // count // 4),
        )

    @property
    def tail(self) -> Limits:
        """A fifth of these limits, since the end of a flood is sent again at each refresh."""
        return Limits(
            lines=self.lines // _TAIL,
            characters=self.characters // _TAIL,
            displays=self.displays // _TAIL,
            display_characters=self.display_characters // _TAIL,
            one_display=self.one_display,
        )


class OutputRoom:
    """The amounts counted against some limits."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self._lines = 0
        self._characters = 0
        self._displays = 0
        self._display_characters = 0

    @property
    def exceeded(self) -> bool:
        """Return whether an amount exceeds its limit."""
        return (
            self._lines > self.limits.lines
            or self._characters > self.limits.characters
            or self._displays > self.limits.displays
            or self._display_characters > self.limits.display_characters
        )

    def take(self, entry: Entry) -> None:
        """Count an entry in."""
        self._count(entry, 1)

    def release(self, entry: Entry) -> None:
        """Count an entry out."""
        self._count(entry, -1)

    def _count(self, entry: Entry, sign: int) -> None:
        if isinstance(entry, Line):
            self._lines += sign
            # The key, since timings may give equal bars different lengths on different processes.
            self._characters += sign * len(entry.key)
        elif isinstance(entry, Display):
            self._displays += sign
            self._display_characters += sign * entry.size


HOLD_S = 0.5
"""Seconds for which output that not all processes have is held back: the others may still bring it."""

FRESH_S = 2.0
"""Seconds for which a process with less of a line or a flood, or with what others have cleared, counts as behind,
and for which a widget that has changed is taken to become what another process has made of its own.

Processes are never at exactly the same place."""

STRICT_S = 2 * FRESH_S
"""Seconds after which nothing that is there now is fresh any more."""
