"""Messages between the kernel and a page with a view, in both directions.

The TypeScript types of the view are generated from this file (`make types`). The kernel broadcasts `Frame`,
`Values` and `Outputs` on the comm `COMM_ID` of `page.py`, and sends the first two to each widget; a page sends a
`Request`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Literal

from nbdist.contract.wire import decode
from nbdist.errors import WireError


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
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
    type: Literal["frame"] = "frame"


@dataclass(frozen=True, slots=True, kw_only=True)
class ValuesPicture:
    """Values at some places of the last two axes, row by row.

    `values` run from 0 for `low` to 1 for `high`; `"nan"` stands for a value that is not finite, null for a
    missing one.
    """

    rows: int
    columns: int
    low: float
    high: float
    values: tuple[float | Literal["nan"] | None, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Values:
    """Content of the array at a path, as the answer to `AskValues`: a `text`, or an `error`."""

    path: str
    text: str | None = None
    picture: ValuesPicture | None = None
    error: str | None = None
    type: Literal["values"] = "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class CellOutputs:
    """Outputs of one cell, each as a notebook saves it. `cell` is the id that the notebook gives the cell."""

    cell: str
    running: bool
    outputs: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """Outputs so far of the cells that run, for a page that was reloaded in the middle of one."""

    cells: tuple[CellOutputs, ...]
    type: Literal["outputs"] = "outputs"


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """The page shows a view, or has missed a frame: it needs a full frame."""

    type: Literal["hello"] = "hello"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskValues:
    """A person asks for the content of the array at a path."""

    path: str
    type: Literal["values"] = "values"


@dataclass(frozen=True, slots=True, kw_only=True)
class ViewTraits:
    """Traits of a view: its still picture, the array to select first, and the only session to show.

    Each is empty for none. `packed` is a `Frame` with everything that never changes, such as a program: JSON,
    compressed by gzip, in base64. It is null if frames come from the kernel.
    """

    view_id: str
    focus: str
    session: str
    packed: str | None = None


Request = Hello | AskValues
_REQUESTS: dict[str, type[Request]] = {"hello": Hello, "values": AskValues}


def read_request(data: object) -> Request | None:
    """Return a page's request; None for anything else that arrives on a comm."""
    found = _REQUESTS.get(str(data.get("type"))) if isinstance(data, dict) else None
    if found is None:
        return None
    try:
        return decode(found, data)
    except WireError:
        return None


def plain(message: Any) -> Any:
    """Return a message as data for JSON. A dict in it is passed on unchanged: a snapshot may be large."""
    if isinstance(message, list | tuple):
        return [plain(item) for item in message]
    if not is_dataclass(message):
        return message
    return {field.name: plain(getattr(message, field.name)) for field in fields(message)}
