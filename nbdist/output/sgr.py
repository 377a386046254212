"""ANSI styles: the state that `ESC [ … m` leads to, so that each line can stand alone.

Source: ECMA-48, Select Graphic Rendition; the codes JupyterLab draws.
"""

from __future__ import annotations

import re
from functools import lru_cache

Style = str
"""SGR parameters in canonical order, such as `"1;31"`; empty for plain text."""

RESET = "\x1b[0m"

SPLIT = re.compile(r"\x1b\[([0-9;]*)m")
"""Splits a text into plain parts and, between them, the parameters of each style."""

_OFF = {22: ("bold", "dim"), 23: ("italic",), 24: ("underline",), 27: ("inverse",)}
_ON = {1: "bold", 2: "dim", 3: "italic", 4: "underline", 7: "inverse", 9: "strike"}


@lru_cache(maxsize=256)
def after(style: Style, parameters: str) -> Style:
    """The style that holds after `ESC [ parameters m`. Codes it does not know are dropped."""
    state = _parse(style)
    codes = _codes(parameters)
    while codes:
        code = codes.pop(0)
        if code == 0:
            state = {}
        elif code in (38, 48):
            color = _extended(codes)
            if color:
                state["fg" if code == 38 else "bg"] = f"{code};{color}"
        elif code in _OFF:
            for name in _OFF[code]:
                state.pop(name, None)
        elif code in (39, 49):
            state.pop("fg" if code == 39 else "bg", None)
        elif (kind := _kind(code)) is not None:
            state[kind] = str(code)
    return ";".join(state[name] for name in sorted(state))


def paint(text: str, style: Style) -> str:
    """The text in a style, closed again."""
    return f"\x1b[{style}m{text}{RESET}" if style and text else text


def plain(text: str) -> str:
    """The text without styles."""
    # Splitting leaves the parameters between the parts.
    return "".join(SPLIT.split(text)[::2])


def _kind(code: int) -> str | None:
    if 30 <= code <= 37 or 90 <= code <= 97:
        return "fg"
    if 40 <= code <= 47 or 100 <= code <= 107:
        return "bg"
    return _ON.get(code)


def _codes(parameters: str) -> list[int]:
    return [int(part) if part.isdigit() else 0 for part in parameters.split(";")]


def _extended(codes: list[int]) -> str | None:
    """Takes the rest of a 256-color (`5;n`) or 24-bit (`2;r;g;b`) code off the list."""
    wanted = {5: 2, 2: 4}.get(codes[0] if codes else -1)
    if wanted is None or len(codes) < wanted:
        codes.clear()
        return None
    taken, codes[:wanted] = codes[:wanted], []
    return ";".join(map(str, taken))


def _parse(style: Style) -> dict[str, str]:
    state: dict[str, str] = {}
    codes = _codes(style) if style else []
    while codes:
        code = codes.pop(0)
        if code in (38, 48):
            state["fg" if code == 38 else "bg"] = f"{code};{_extended(codes)}"
        elif (kind := _kind(code)) is not None:
            state[kind] = str(code)
    return state
