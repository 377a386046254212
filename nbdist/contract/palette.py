"""The colours of an array's pieces, in the live view and in the still picture.

The colours of the live view are generated from this file (`make types`).
"""

from __future__ import annotations

FILLS = {
    "light": (
        "#73d0dc",
        "#ecccb8",
        "#a9bffc",
        "#abcf8e",
        "#f2a9c4",
        "#e7e694",
        "#d3e6ff",
        "#9ff0d8",
    ),
    "dark": (
        "#00506a",
        "#874e17",
        "#4a2478",
        "#144a02",
        "#7e1f48",
        "#1d5fa3",
        "#7c4a80",
        "#04724f",
    ),
}
"""The live view's, for light pages and for dark ones. Chosen in OKLCH for the greatest least distance between
any two as seen with normal, protanopic and deuteranopic eyes (Machado 2009), with the hues of red and amber left
out and text readable on each (contrast 4.5 or more)."""

STILL_FILLS = (
    (86, 180, 233),
    (230, 159, 0),
    (0, 158, 115),
    (204, 121, 167),
    (0, 114, 178),
    (213, 94, 0),
    (240, 228, 66),
    (127, 127, 127),
)
"""Red, green, blue of the still picture's (Okabe–Ito, then grey). Stronger than `FILLS`, since a saved picture
does not know its page and lays them over it at `STILL_OPACITY`. With more pieces than colours they repeat, and the
slices in the cell tell pieces apart."""

STILL_OPACITY = 0.3
"""How much of such a colour is seen over the page, light or dark."""
