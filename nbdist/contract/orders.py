"""Orders that the kernel sends to the agent of a host: one JSON object per line, one class for each type."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from msgspec import field

from nbdist.contract.asides import Question
from nbdist.contract.events import Coordinating, Relaying, Reserved
from nbdist.contract.wire import Data, Request, Tagged, from_json, to_json

A = TypeVar("A", covariant=True)

CONTROLLER = -1
"""Stands for the controller in place of a process id."""

COORDINATOR = -2
"""Stands for the first coordination service; later ones have lower numbers."""

SERVES_SECONDS = 20.0
"""Seconds a coordination service may take until it listens; forked, it takes some milliseconds."""


class _Order(Tagged, Request[A], tag_field="order"):
    """A line for an agent."""


class Assignment(_Order[None], tag="assign"):
    """The first order: the task of this host.

    `nbdist` is the version of the kernel's nbdist; an agent of another version refuses the order before it reads
    the rest. `folder` is private to the session and holds connection files and logs; None if the host is another
    machine, which makes a folder of its own. `preload` names the modules that every engine will need.
    `controller_arguments` is None if the controller runs elsewhere; `controller_address` then says where, a
    loopback address if ssh forwards it. `environment` and the working folder `cwd` are set before anything is
    imported. `ports` is how many ports to reserve for the processes. `silence_s` is how long the kernel may be
    silent before everything is stopped, None: for ever. `checks` are the arguments of
    `nbdist.machine.checkup.checkup`, None for no checks; with them the agent also listens until `StopListening`,
    so that others can try to reach this host. `kept` says that the agent goes on without a kernel, but only from
    `Keep` on, since before nobody could find it again; until then it ends with the process `kernel`, its parent,
    if that is known. `paths` are folders for the user's modules; relative ones are in the copy of the user's
    files. `cwd_copy`, in that copy, is the working folder if there is no `cwd`.
    """

    nbdist: str
    cluster_id: str
    preload: tuple[str, ...]
    fork: bool
    folder: str | None = None
    controller_arguments: tuple[str, ...] | None = None
    controller_address: str | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    ports: int = 0
    silence_s: float | None = None
    checks: Mapping[str, Any] | None = None
    kept: bool = False
    kernel: int | None = None
    paths: tuple[str, ...] = ()
    cwd_copy: str | None = None


class NewProcess(Data):
    """One engine to start, and its variables."""

    process_id: int
    environment: Mapping[str, str]


class Start(_Order[None]):
    """Order to start engines; an agent that is a task of a job starts only its own."""

    processes: tuple[NewProcess, ...]


class Signal(_Order[None]):
    """Order to send a signal to engines."""

    number: int
    process_ids: tuple[int, ...]


class Connect(_Order[None]):
    """Order that brings the connection file for engines: the controller's address and the session's key."""

    connection: Mapping[str, Any]


class Collect(_Order[None]):
    """Order that says where a task gets the connection file, past a stream that others may read.

    `address` is such as `tcp://10.0.0.1:40123`, `server_key` the public key (CURVE) there, in Z85; see
    `nbdist.agent.kernel_link`.
    """

    address: str
    server_key: str


class Reach(_Order[None]):
    """Order to try to connect to these addresses and ports of other hosts."""

    targets: tuple[tuple[str, int], ...]


class StopListening(_Order[None]):
    """Order to stop listening: all others have tried to reach this host."""


class Ask(_Order[None]):
    """Order to ask engines something past their main threads."""

    process_ids: tuple[int, ...]
    question: Question


class ReservePorts(_Order[Reserved]):
    """Order to reserve `count` ports for processes that are to serve anew, and to release the earlier ones."""

    number: int
    count: int


class Coordinate(_Order[Coordinating]):
    """Order to start a coordination service beside a process; `port` None: any free port."""

    number: int
    process_id: int
    host: str
    port: int | None
    processes: int


class Relay(_Order[Relaying]):
    """Order to let the processes of this host reach coordination service `number` at `address`, via the agent."""

    number: int
    address: str


class EndCoordination(_Order[None]):
    """Order to end a coordination service."""

    number: int


class RestartController(_Order[None]):
    """Order to start ipyparallel's controller again after it has ended, at the same ports, with the same keys."""


class Keep(_Order[None]):
    """Order to go on without a kernel from now on, since another kernel can find the agent."""


class Stop(_Order[None]):
    """Order to end everything, where no end of input can say so."""


class KernelAlive(_Order[None], tag="alive"):
    """The kernel is alive."""


class ListedFile(Data):
    """A file of the user's, as it is to be in the copy; `mode` as `os.stat` has it, `size` in bytes."""

    name: str
    size: int
    mode: int
    sha256: str


class ListFiles(_Order[None]):
    """A part of the list of all files in the copy called `id`; names are relative to the copy."""

    id: str
    files: tuple[ListedFile, ...]


class AskForFiles(_Order[None]):
    """Order to report which of the listed files are needed."""

    id: str


class WriteFile(_Order[None]):
    """A piece of one file, `data` in Base64; the last piece has the digest of the whole file."""

    id: str
    name: str
    data: str
    sha256: str | None = None


class DropFile(_Order[None]):
    """A listed file no longer exists."""

    id: str
    name: str


class CommitFiles(_Order[None]):
    """Order to replace the old files by the new ones."""

    id: str


FileOrder = ListFiles | AskForFiles | WriteFile | DropFile | CommitFiles

Order = (
    Assignment
    | Start
    | Signal
    | Connect
    | Collect
    | Reach
    | StopListening
    | Ask
    | ReservePorts
    | Coordinate
    | Relay
    | EndCoordination
    | RestartController
    | Keep
    | Stop
    | KernelAlive
    | FileOrder
)


def to_line(order: Order) -> bytes:
    """Return an order as JSON, with the end of its line.

    Raises:
      WireError: The order holds something JSON has no form for.
    """
    return to_json(order).encode() + b"\n"


def from_line(line: bytes) -> Order:
    """Read an order from its line.

    Raises:
      WireError: The line is no order, or an order of another shape.
    """
    order: Order = from_json(Order, line)  # type: ignore[arg-type]
    return order


def version_of(line: bytes) -> str | None:
    """Return the nbdist version of the kernel that sent this first order; None if the order names none."""
    data = json.loads(line)
    found = data.get("nbdist") if isinstance(data, dict) else None
    return found if isinstance(found, str) else None
