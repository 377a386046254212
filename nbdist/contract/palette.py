"""The colours of an array's pieces, in the live view and in the still picture.

The live view's files are generated from this one (`make types`); `nbdist/view/picture.py` makes the still
picture's colours of the same.
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
"""Colours of the live view, for light pages and for dark ones. Chosen in OKLCH for the greatest least distance
between any two as seen with normal, protanopic and deuteranopic eyes (Machado 2009), without the hues of red and
amber, and so that text is readable on each (contrast 4.5 or more)."""
