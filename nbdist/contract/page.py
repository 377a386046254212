"""Constants, colours and messages on which the kernel and a page with a view agree.

Constants are names by which the two find each other, and limits, which engines share, so that all say the same
about the same session. The kernel broadcasts `Frame`, `Values`, `Outputs` and `CellMode` on the comm `COMM_ID`,
and sends the first two to each widget; a page sends a `Request`. The TypeScript types, constants and colours of
the view are generated from this file (`make types`); `nbdist/view/picture.py` makes the still picture's colours of
the same.
"""

from __future__ import annotations

from typing import Any, Literal

from nbdist.contract.wire import Data, Tagged, decode
from nbdist.errors import WireError

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


class _Message(Tagged, tag_field="type"):
    """A message between the kernel and a page."""


class Frame(_Message):
    """The newest snapshot, or its top-level sections that have changed.

    `stream` names the sender, since a restarted kernel counts from the start. `base` is the sequence number of the
    frame to which this frame is a change; null if every section is present. A frame without sections and with
    `base == sequence` says that nothing has changed. `age` is how long ago the snapshot was made, in seconds.
    """

    stream: str
    sequence: int
    base: int | None
    age: float
    snapshot: dict[str, Any]


class ValuesPicture(Data):
    """Values at some places of the last two axes, row by row.

    `values` run from 0 for `low` to 1 for `high`; `"nan"` stands for a value that is not finite, null for a
    missing one.
    """

    rows: int
    columns: int
    low: float
    high: float
    values: tuple[float | Literal["nan"] | None, ...]


class Values(_Message):
    """Content of the array at a path, as the answer to `AskValues`: a `text`, or an `error`."""

    path: str
    text: str | None = None
    picture: ValuesPicture | None = None
    error: str | None = None


class CellOutputs(Data):
    """Outputs of one cell, each as a notebook saves it. `cell` is the id that the notebook gives the cell."""

    cell: str
    running: bool
    outputs: tuple[dict[str, Any], ...]


class Outputs(_Message):
    """Outputs so far of the cells that run, for a page that was reloaded in the middle of one."""

    cells: tuple[CellOutputs, ...]


class CellMode(_Message, tag="mode"):
    """Whether plain cells run on the processes, as `%dist_mode` sets it."""

    on_processes: bool


class Hello(_Message):
    """The page shows a view, or has missed a frame: it needs a full frame."""


class AskValues(_Message, tag="values"):
    """A person asks for the content of the array at a path."""

    path: str


class ViewTraits(Data):
    """Traits of a view: its still picture, the array to select first, the only session to show, and its form.

    The first three are empty for none. A `strip` is the session in one line, which opens as a view; other forms
    but `view` are one section of it. `packed` is a `Frame` with everything that never changes, such as a program:
    JSON, compressed by gzip, in base64. It is null if frames come from the kernel.
    """

    view_id: str
    focus: str
    session: str
    form: Literal["view", "strip", "problem", "processes", "mesh", "arrays"]
    packed: str | None = None


Request = Hello | AskValues


def read_request(data: object) -> Request | None:
    """Return a page's request; None for anything else that arrives on a comm."""
    try:
        found: Request = decode(Request, data)  # type: ignore[arg-type]
    except WireError:
        return None
    return found


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
