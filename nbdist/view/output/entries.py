"""Entries of one process's output (line, display, or gap where a flood was cut), with keys for their comparison.

The keys leave out everything that always differs between processes: timings of progress bars, memory addresses,
and ids that each process makes up.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import zlib
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from nbdist import summary
from nbdist.contract.calls.inspection import MIME, ArraySummary
from nbdist.contract.wire import decode, encode
from nbdist.view.widget_models import WIDGET_MIME as WIDGET_MIME
from nbdist.view.widgets import LiveWidget

_LONGEST = 1000
"""The most characters of a bar; a longer line is not searched."""

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_DIGITS = re.compile(r"\d+(?:\.\d+)?")
_CLOCK = r"(?:\d+ days?, )?(?:\d+:){1,2}\d\d"
_STEP = r"\d+(?:s|ms|us)/\w+"

_KERAS = re.compile(
    r"\s*(?P<n>\d+)/(?P<total>\d+|Unknown) +(?:━+ +)?"
    rf"(?P<time>(?:{_CLOCK}|\d+s) {_STEP})(?: - .*)?\s*"
)
_KERAS_LINE = re.compile(rf"\s*(?P<n>\d+)/(?P<total>\d+) - (?P<time>\d+s - {_STEP})(?: - .*)?\s*")
_KERAS_2 = re.compile(
    r"\s*(?P<n>\d+)/(?P<total>\d+|Unknown) \[[=>.]+\] - "
    rf"(?P<time>(?:ETA: )?(?:{_CLOCK}|\d+s)(?: {_STEP})?)(?: - .*)?\s*"
)
_KERAS_2_LINE = re.compile(
    r"\s*(?P<n>\d+)/(?P<total>\d+) - (?P<time>\d+s) - .* - "
    rf"(?P<rate>\d+(?:s|ms|us)/epoch - {_STEP})\s*"
)
_NUMBER = r"[\d.]+[kMGTPEZ]?"
_RATE = rf"(?:\?|\s*{_NUMBER})(?:[^\s\],]*/s|s/[^\s\],]*)"
_TQDM = re.compile(
    rf"\d{{1,3}}%\|[^|]*\| *(?P<n>{_NUMBER})/(?P<total>{_NUMBER}) "
    rf"\[(?P<time>{_CLOCK}<(?:\?|{_CLOCK}), {_RATE})(?:, .*)?\]\s*$"
)
_TQDM_OPEN = re.compile(
    rf"(?P<n>{_NUMBER})(?P<total>[^\s\d\[]*) \[(?P<time>{_CLOCK}, {_RATE})(?:, .*)?\]\s*$"
)
_RICH = re.compile(rf"[━╸╺]{{5,}} *(?P<n>\d{{1,3}})%(?P<total>) (?P<time>{_CLOCK}|-(?::--)+)\s*$")

_WHOLE = (_KERAS, _KERAS_LINE, _KERAS_2, _KERAS_2_LINE)
_AT_THE_END = (_TQDM, _TQDM_OPEN, _RICH)
_SCALE = {"k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18, "Z": 1e21}


class TextBar(NamedTuple):
    """A line that is a progress bar: its identity, its progress, and its text without timings.

    Bars with the same `key` differ at most in their timings. Bars with the same `skeleton` are the same bar,
    perhaps at different progress. `progress` is the count done.
    """

    key: str
    skeleton: str
    progress: float


def parse_bar(text: str) -> TextBar | None:
    """Return a line as a progress bar; None for any other line, even one with numbers like a bar's.

    Source of the forms: `keras.utils.Progbar.update` (Keras 3.15), `tqdm.std.tqdm.format_meter` (tqdm 4.67),
    `rich.progress` (default columns), the legacy Keras 2 bar.
    """
    # Cheap enough for a flood: nearly every ordinary line ends here.
    if ("/" not in text and "━" not in text) or len(text) > _LONGEST:
        return None
    plain = _ANSI.sub("", text) if "\x1b" in text else text
    match = next((found for form in _WHOLE if (found := form.fullmatch(plain))), None)
    if match is None and ("[" in plain or "━" in plain):
        match = next((found for form in _AT_THE_END if (found := form.search(plain))), None)
    if match is None:
        return None
    what = _DIGITS.sub("#", plain[: match.start()].strip())
    return TextBar(
        key=_without_timings(plain, match),
        skeleton=f"{what} {match['total']}",
        progress=_count(match["n"]),
    )


def _without_timings(plain: str, match: re.Match[str]) -> str:
    for group in ("rate", "time"):
        if match.groupdict().get(group):
            start, stop = match.span(group)
            plain = f"{plain[:start]}~{plain[stop:]}"
    return plain.rstrip()


def _count(text: str) -> float:
    scale = _SCALE.get(text[-1], 1.0)
    try:
        return float(text.rstrip("kMGTPEZ")) * scale
    except ValueError:
        # `1.2.3` in `1.2.3/4` matches the pattern of a number, but is not one.
        return 0.0


_PACKED = re.compile(r"\beN[A-Za-z0-9+/]{38,}={0,2}")
"""The pattern of base64 of zlib's output, the form in which treescope puts its HTML into HTML."""

_MOST_CHARACTERS = 16 << 20
"""The largest text that is unpacked; a larger one is compared as it came."""

_ID = re.compile(r"\bid=\\?[\"']([\w-]+)\\?[\"']")
_INVENTED = re.compile(r"\b(?:treescope_out|deferred)_[0-9a-f]{32}\b")
"""treescope's ids, by which it finds its elements."""

_SCRIPT_ID = re.compile(r"[\"']([0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12})[\"']")
"""Bokeh's ids, in the scripts that fill an element; a script shows no text of its own."""

_DATE = re.compile(r"<dc:date>[^<]*</dc:date>")
"""The time at which Matplotlib drew an SVG."""

_WORD = re.compile(r"[\w-]+")


def comparable(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a MIME bundle for comparison only: made-up ids become numbers, and a drawing's date is dropped.

    pandas' Styler, Matplotlib, Bokeh and treescope make up new ids for HTML, SVG and scripts each time; readers
    never see them.
    """
    return {
        mime: _without_ids(value, script=mime.startswith("application/"))
        if isinstance(value, str) and mime.startswith(("text/html", "image/svg", "application/"))
        else value
        for mime, value in data.items()
    }


def _without_ids(text: str, *, script: bool) -> str:
    """Replace each id everywhere, also in style sheets and scripts."""
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


Stream = Literal["stdout", "stderr", "result"]
"""The origin of a line; `result` is a text that IPython displayed."""

_ADDRESS = re.compile(r"\bat 0x[0-9a-fA-F]{4,16}\b")
_UNSHOWN = "at 0x…"


def view_of(model: str) -> dict[str, object]:
    """Return the view data with which a front end finds a widget's model."""
    return {"version_major": 2, "version_minor": 0, "model_id": model}


class Line(NamedTuple):
    """One line of text; a tuple, not a dataclass, since a flood makes 100,000 lines a second.

    `text` opens and closes its own ANSI colors. Lines with the same `key` are the same line. `open` is true while
    the process's cursor is still on the line, so that it may grow or be redrawn. A `wrapped` line continues in the
    next one: it was cut only because of its length. `time` is when its first character came, `last` when it was
    last written to, in seconds of `time.monotonic`.
    """

    stream: Stream
    text: str
    key: str
    bar: TextBar | None
    time: float
    open: bool = False
    wrapped: bool = False
    last: float = 0.0


class Display:
    """One rich output; mutable, since `update_display_data` changes it in place.

    `digest` is equal for equal MIME bundles, and for the `part`s that processes have of one array; `updates`
    counts its changes; `size` is the bundle's length in characters as JSON; `handed` says that a queue has it.
    `widgets` are the processes' widgets that it shows; if there are any, displays are compared by them.
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
        """Return whether the display shows widgets that no longer exist."""
        return bool(self.widgets) and all(widget.closed for widget in self.widgets)

    @property
    def text(self) -> str:
        """Return the text form, as in the file with all output."""
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
    """Return whether the key of a line within `text` may differ from the line itself; fast, for floods."""
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
