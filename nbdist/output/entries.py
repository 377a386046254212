"""Entries of one process's output: a line, a display, or a gap where a flood was cut."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from nbdist import summary
from nbdist.contract.array_summary import MIME, ArraySummary
from nbdist.contract.wire import decode, encode
from nbdist.output.bars import Bar, parse_bar
from nbdist.output.html import comparable
from nbdist.widgets import LiveWidget
from nbdist.widgets.captured import WIDGET_MIME as WIDGET_MIME

Stream = Literal["stdout", "stderr", "result"]
"""The origin of a line; `result` is a text that IPython displayed."""

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{4,16}\b")
_UNSHOWN = "at 0x…"


def view_of(model: str) -> dict[str, object]:
    """Return the view data by which a front end finds a widget's model."""
    return {"version_major": 2, "version_minor": 0, "model_id": model}


class Line(NamedTuple):
    """One line of text. A tuple and no dataclass, since a flood makes 100,000 a second of them.

    `text` opens and closes its own ANSI colors. Lines with the same `key` are the same line.
    `open` is true while the process's cursor is still on it, so that it may grow or be redrawn.
    A `wrapped` line goes on in the next one: it was cut for its length only. `time` is when its
    first character came, `last` when it was written to last, in seconds of `time.monotonic`.
    """

    stream: Stream
    text: str
    key: str
    bar: Bar | None
    time: float
    open: bool = False
    wrapped: bool = False
    last: float = 0.0


class Display:
    """One rich output. Mutable, since `update_display_data` changes it in place.

    `digest` is equal for equal MIME bundles, and for the `part`s that processes have of one array; `updates`
    counts its changes; `size` is the bundle's length in characters as JSON; `handed` says that a queue has it.
    `widgets` are the processes' widgets that it shows; it is compared by them.
    """

    __slots__ = (
        "__weakref__",
        "data",
        "digest",
        "handed",
        "metadata",
        "part",
        "size",
        "time",
        "updates",
        "widgets",
    )

    def __init__(self, data: Mapping[str, Any], metadata: Mapping[str, Any], time: float) -> None:
        self.time = time
        self.updates = -1
        self.handed = False
        self.widgets: tuple[LiveWidget, ...] = ()
        self.set(data, metadata)

    def set(self, data: Mapping[str, Any], metadata: Mapping[str, Any]) -> None:
        """Replace the content."""
        if len(data) > 1:
            data = {mime: value for mime, value in data.items() if mime != WIDGET_MIME}
        self.part = decode(ArraySummary, data[MIME]) if MIME in data else None
        if self.part is not None:
            data = {"text/plain": summary.text([self.part])}
        self.data: dict[str, Any] = dict(data)
        self.metadata: dict[str, Any] = dict(metadata)
        compared = dict(data)
        if self.part is not None:
            compared = encode(summary.facts(self.part))
        if isinstance(compared.get("text/plain"), str):
            compared["text/plain"] = without_addresses(compared["text/plain"])
        if isinstance(compared.get("text/html"), str):
            compared["text/html"] = without_addresses(compared["text/html"])
        text = json.dumps([comparable(compared), self.metadata], sort_keys=True, default=repr)
        self.size = len(text)
        self.digest = hashlib.blake2b(text.encode("utf-8", "replace"), digest_size=16).hexdigest()
        self.updates += 1

    @property
    def taken_away(self) -> bool:
        """Return whether it shows widgets that no longer exist."""
        return bool(self.widgets) and all(widget.closed for widget in self.widgets)

    @property
    def text(self) -> str:
        """Return the text form, as in the file that holds all output."""
        plain = self.data.get("text/plain")
        return plain if isinstance(plain, str) else f"[{', '.join(self.data)}]"


class Gap(NamedTuple):
    """The cut between the first and the last entries of a flood.

    Gaps with the same `key` stand for the same text; `text` says how much was cut and where it is.
    """

    key: str
    text: str
    time: float


Entry = Line | Display | Gap


def line(
    stream: Stream,
    text: str,
    time: float,
    *,
    open: bool = False,
    wrapped: bool = False,
    whole: str = "",
    last: float = 0.0,
) -> Line:
    """Return a `Line` with the key by which it is compared to lines of other processes.

    The timings of a progress bar, and the addresses in a result (`<Line2D object at 0x7f…>`), never agree between
    processes and are left out of the key. `whole` is the digest of the result that the line belongs to: lines of
    different results are never the same.
    """
    bar = parse_bar(text)
    if bar is not None:
        key = bar.key
    elif stream == "result":
        key = f"{without_addresses(text)}\0{whole}" if whole else without_addresses(text)
    else:
        key = text
    return Line(stream, text, key, bar, time, open, wrapped, last)


def may_differ_from_key(stream: Stream, text: str) -> bool:
    """Return whether the key of a line within `text` may differ from the line itself. Fast, for floods."""
    return stream == "result" or "/" in text or "━" in text


def digest_of_lines(text: str) -> str:
    """Return the digest by which results of several lines are compared; empty for one line, compared by itself."""
    if "\n" not in text:
        return ""
    data = without_addresses(text).encode("utf-8", "replace")
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def without_addresses(text: str) -> str:
    """Return the text without addresses: `<Figure at 0x7f3a10c4>` → `<Figure at 0x…>`."""
    return _ADDRESS.sub(_UNSHOWN, text) if " at 0x" in text else text
