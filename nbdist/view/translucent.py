"""The fills of the live view as translucent colours, which fit a page of either theme.

A saved picture does not know its page: no style sheet goes with it that could ask for the theme. So each fill is
one colour that lies over the page at `OPACITY`, in the middle between those that would give the live view's fill
of either theme: near to both where the two have one hue.
"""

from __future__ import annotations

from nbdist.contract.palette import FILLS

PAGES = {"light": 255, "dark": 17}
"""Red, green and blue, all alike, of a page: JupyterLab's in its two themes."""

OPACITY = 0.4
"""How much of a fill is seen over the page. From here on the fills are no further apart, and text on them is less
readable."""


def translucent_fills() -> tuple[str, ...]:
    """The fills in the palette's order, as `rgba(…)`."""
    pairs = zip(FILLS["light"], FILLS["dark"], strict=True)
    return tuple(f"rgba({', '.join(map(str, _between(*pair)))}, {OPACITY})" for pair in pairs)


def _between(light: str, dark: str) -> tuple[int, ...]:
    """Red, green and blue that miss both fills by the same amount, each over its page, if 0 to 255 allow."""
    page = (1 - OPACITY) * sum(PAGES.values())
    wanted = (
        (one + other - page) / (2 * OPACITY)
        for one, other in zip(bytes.fromhex(light[1:]), bytes.fromhex(dark[1:]), strict=True)
    )
    return tuple(round(min(255, max(0, channel))) for channel in wanted)
