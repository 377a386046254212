"""Progress bars: which lines are one, how far it is, and what of it is only timing.

Source of the forms: `keras.utils.Progbar.update` (Keras 3.15), `tqdm.std.tqdm.format_meter` (tqdm
4.67), `rich.progress` (default columns), the legacy Keras 2 bar.
"""

from __future__ import annotations

import re
from typing import NamedTuple

_LONGEST = 1000
"""No bar is longer, in characters; a longer line is not searched."""

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


class Bar(NamedTuple):
    """A line that is a progress bar.

    Bars with the same `key` differ in their timings at most. Bars with the same `skeleton` are
    the same bar, however far each is. `progress` is the count done.
    """

    key: str
    skeleton: str
    progress: float


def parse_bar(text: str) -> Bar | None:
    """The bar that a line is, or None for any other line, whatever numbers it holds."""
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
    return Bar(
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
        # `1.2.3/4` has the form of a number and is none.
        return 0.0
