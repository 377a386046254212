"""HTML, SVG and scripts of several processes in a comparable form: without the ids that each process invents."""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from collections.abc import Mapping
from typing import Any

_PACKED = re.compile(r"\beN[A-Za-z0-9+/]{38,}={0,2}")
"""Base64 of zlib's output, the form in which treescope puts its HTML into HTML."""

_MOST_CHARACTERS = 16 << 20
"""Largest text that is unpacked; a larger one is compared as it came."""

_ID = re.compile(r"\bid=\\?[\"']([\w-]+)\\?[\"']")
_INVENTED = re.compile(r"\b(?:treescope_out|deferred)_[0-9a-f]{32}\b")
"""treescope's ids, by which it finds its elements."""

_SCRIPT_ID = re.compile(r"[\"']([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})[\"']")
"""Bokeh's ids, in the scripts that fill an element; a script shows no text of its own."""

_DATE = re.compile(r"<dc:date>[^<]*</dc:date>")
"""When Matplotlib drew an SVG."""

_WORD = re.compile(r"[\w-]+")


def comparable(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a MIME bundle for comparison only: invented ids become numbers, and a drawing has no date.

    pandas' Styler, Matplotlib, Bokeh and treescope invent new ids each time, which nobody reads.
    """
    return {
        mime: _without_ids(value, script=mime.startswith("application/"))
        if isinstance(value, str) and mime.startswith(("text/html", "image/svg", "application/"))
        else value
        for mime, value in data.items()
    }


def _without_ids(text: str, *, script: bool) -> str:
    """Replace each id wherever it stands, also in style sheets and scripts."""
    text = _DATE.sub("", _PACKED.sub(_unpacked, text))
    names = [*_ID.findall(text), *_INVENTED.findall(text)]
    names += _SCRIPT_ID.findall(text) if script else []
    if not names:
        return text
    numbers = {name: f"id {number}" for number, name in enumerate(dict.fromkeys(names))}
    return _WORD.sub(lambda word: numbers.get(word[0], word[0]), text)


def _unpacked(packed: re.Match[str]) -> str:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(packed[0]), _MOST_CHARACTERS)
        return data.decode("utf-8") if unpacker.eof else packed[0]
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        return packed[0]
