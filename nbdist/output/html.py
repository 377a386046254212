"""What HTML of several processes is compared by: all of it, but for the ids that each process invents."""

from __future__ import annotations

import base64
import binascii
import re
import zlib

_PACKED = re.compile(r"\beN[A-Za-z0-9+/]{38,}={0,2}")
"""Base64 of zlib's output, as treescope puts its HTML into HTML."""

_MOST_CHARACTERS = 16 << 20
"""Of what is unpacked; more is compared as it came."""

_ID = re.compile(r"\bid=\\?[\"']([\w-]+)\\?[\"']")
_INVENTED = re.compile(r"\b(?:treescope_out|deferred)_[0-9a-f]{32}\b")
"""treescope's, which it finds its elements by."""

_WORD = re.compile(r"[\w-]+")


def without_ids(html: str) -> str:
    """HTML with numbers in place of its elements' ids, so that those of equal content are equal.

    pandas' Styler and treescope invent new ids each time, which nobody reads. An id is replaced wherever it
    stands, as in style sheets and scripts. For comparing alone.
    """
    html = _PACKED.sub(_unpacked, html)
    names = [*_ID.findall(html), *_INVENTED.findall(html)]
    if not names:
        return html
    numbers = {name: f"id {number}" for number, name in enumerate(dict.fromkeys(names))}
    return _WORD.sub(lambda word: numbers.get(word[0], word[0]), html)


def _unpacked(packed: re.Match[str]) -> str:
    try:
        unpacker = zlib.decompressobj()
        data = unpacker.decompress(base64.b64decode(packed[0]), _MOST_CHARACTERS)
        return data.decode("utf-8") if unpacker.eof else packed[0]
    except (binascii.Error, zlib.error, UnicodeDecodeError):
        return packed[0]
