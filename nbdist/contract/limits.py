"""Limits that engines, kernel and view keep alike, so that they say the same of the same session.

The TypeScript constants of the view are generated from this file (`make types`).
"""

from __future__ import annotations

LARGE_BYTES = 1 << 20
"""From this size on an array that is whole on every device is worth a remark; smaller ones may be."""

DEEPEST = 100
"""Steps of a path that make branches of their own; what lies deeper is one step."""

SILENT_SECONDS = 4
"""A process that has reported nothing for so long is said to be silent: reports are repeated at
least every two seconds."""

MOST_NAMED_DEVICES = 4
"""Devices named where they hold different numbers of bytes; the rest is counted."""
