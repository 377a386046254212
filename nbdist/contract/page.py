"""Constants on which the kernel and a page with a view agree: names by which they find each other, and limits.

Limits are shared, with engines as well, so that all say the same about the same session. The TypeScript constants
of the view are generated from this file (`make types`).
"""

from __future__ import annotations

COMM_ID = "nbdist"
"""The comm id of all frames. Fixed, so that a page that is reloaded in the middle of a cell receives them at once:
opening a comm of its own would wait for the cell."""

TARGET = "nbdist"
"""The comm target that a front end opens to ask for something."""

MIME_TYPE = "application/vnd.nbdist.view+json"
"""The MIME type of nbdist's own JupyterLab extension, which shows a view in the place of the widget
(`labextension/src/output.ts`): live again after a reload in the middle of a cell, and nothing at all if there is
no kernel, where ipywidgets would say "model not found"."""

PROGRAM_MIME_TYPE = "application/vnd.nbdist.program+json"
"""The snapshot of a program on its way from a rehearsal's process to the notebook, which shows a picture of it."""

STILL_ATTRIBUTE = "data-nbdist-view"
"""The attribute by which a still picture names the view that it stands for."""


LARGE_BYTES = 1 << 20
"""The size from which an array that is whole on every device is worth a remark."""

DEEPEST = 100
"""The number of steps of a path that make branches of their own; all deeper steps together are one step."""

SILENT_SECONDS = 4
"""Seconds without a report after which a process is called silent: reports are repeated at least every two
seconds."""

MOST_NAMED_DEVICES = 4
"""The most devices that are named if devices hold different numbers of bytes; the rest is counted."""
