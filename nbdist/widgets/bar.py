"""A progress bar of `tqdm.notebook` among the widgets: its line of text, and how far it is.

Source: `tqdm.notebook.tqdm_notebook.status_printer` and `display` (tqdm 4.67): a box of text, progress, text.
"""

from __future__ import annotations

import html
from typing import NamedTuple

from nbdist.widgets.models import REFERENCE, Models

KINDS = ("HTMLModel", "FloatProgressModel", "HTMLModel")
OPEN = ("", "info")
"""Styles of a bar that is not done."""

_WIDTH = 20


class WidgetBar(NamedTuple):
    """How far a bar is: `value` of `most`, whether it still goes on, and as a line of text."""

    value: float
    most: float
    open: bool
    text: str


def bar_of(models: Models, root: str) -> WidgetBar | None:
    """The bar that a widget is; None for any other."""
    if root not in models or models[root].kind != "HBoxModel":
        return None
    inner = [str(child).removeprefix(REFERENCE) for child in models[root].state.get("children", ())]
    if any(child not in models for child in inner):
        return None
    if tuple(models[child].kind for child in inner) != KINDS:
        return None
    left, progress, right = (models[child].state for child in inner)
    value, most = float(progress.get("value") or 0.0), float(progress.get("max") or 0.0)
    style = progress.get("bar_style") or ""
    known = style != "info" and most > 0
    done = min(max(round(_WIDTH * value / most), 0), _WIDTH) if known else 0
    drawn = f"|{'█' * done}{' ' * (_WIDTH - done)}| " if known else ""
    text = f"{_plain(left)}{drawn}{_plain(right).lstrip()}".strip()
    return WidgetBar(value, most, style in OPEN and not (known and value >= most), text)


def _plain(state: dict[str, object]) -> str:
    return html.unescape(str(state.get("value") or "")).replace("\u2007", " ")
