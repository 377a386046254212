"""Names that the kernel and a page with a view both know.

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
