"""A frame as a notebook keeps it: small, where plain JSON has each number of a list on a line of its own."""

from __future__ import annotations

import base64
import gzip
import json

from nbdist.contract.messages import Frame, plain


def packed(frame: Frame) -> str:
    """The frame as JSON, compressed by gzip, in base64; the same for the same frame."""
    text = json.dumps(plain(frame), separators=(",", ":"))
    return base64.b64encode(gzip.compress(text.encode(), mtime=0)).decode()
