"""Names that the kernel and a page with a view both know.

The TypeScript constants of the view are generated from this file (`make types`).

Limits that engines, kernel and view share, so that they say the same about the same session.

The TypeScript constants of the view are generated from this file (`make types`).
"""

from __future__ import annotations

COMM_ID = "nbdist"
"""The comm id of all frames. Fixed, so that a page that is reloaded in the middle of a cell receives them at once:
opening a comm of its own would wait for the cell."""

TARGET = "nbdist"
"""The comm target a front end opens to ask for something."""

MIME_TYPE = "application/vnd.nbdist.view+json"
"""The MIME type of nbdist's own JupyterLab extension, which shows a view in the place of the widget
(`labextension/src/output.ts`): live again after a reload in the middle of a cell, and nothing at all if there is
no kernel, where ipywidgets would say "model not found"."""

PROGRAM_MIME_TYPE = "application/vnd.nbdist.program+json"
"""The snapshot of a program on its way from a rehearsal's process to the notebook, which shows a picture of it."""

STILL_ATTRIBUTE = "data-nbdist-view"
"""The attribute by which a still picture names the view that it stands for."""


LARGE_BYTES = 1 << 20
"""An array of this size or more that is whole on every device is worth a remark; a smaller one is not."""

DEEPEST = 100
"""Steps of a path that make branches of their own; all deeper steps together are one step."""

SILENT_SECONDS = 4
"""A process that has reported nothing for this many seconds is called silent: reports are repeated at
least every two seconds."""

MOST_NAMED_DEVICES = 4
"""Devices that are named if they hold different numbers of bytes; the rest is counted."""
