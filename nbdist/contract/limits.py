"""Limits that engines, kernel and view share, so that they say the same about the same session.

The TypeScript constants of the view are generated from this file (`make types`).
"""

from __future__ import annotations

LARGE_BYTES = 1 << 20
"""An array of this size or more that is whole on every device is worth a remark; a smaller one is not."""

DEEPEST = 100
"""Steps of a path that make branches of their own; all deeper steps together are one step."""

SILENT_SECONDS = 4
"""A process that has reported nothing for this many seconds is called silent: reports are repeated at
least every two seconds."""

MOST_NAMED_DEVICES = 4
"""Devices that are named if they hold different numbers of bytes; the rest is counted."""
