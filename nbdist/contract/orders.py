"""What the kernel sends to the agent of a host: one JSON object a line, each an order of one of these types."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from nbdist.contract.questions import Question
from nbdist.contract.wire import decode, encode

CONTROLLER = -1
"""Stands for the controller where a process id is expected."""

COORDINATOR = -2
"""Stands for the first coordination service; later ones have lower numbers."""

SERVES_SECONDS = 20.0
"""How long a coordination service may take until it listens; forked, it takes some milliseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """The first order: what this host is for.

    `nbdist` is the version of the kernel's nbdist; an agent of another refuses it before it reads the rest.
    `folder` is private to the session and has connection files and logs; None where the host is another
    machine, which makes one of its own. `preload` names the modules every engine will need;
    `controller_arguments` is None where the controller runs elsewhere, and `controller_address` says where,
    a loopback address where ssh forwards it.
    `environment` and the working folder `cwd` come before anything is imported. `ports` is how many are to be
    reserved for its processes. `silence_s` is how long the kernel may be silent before all is stopped, None: for
    ever.
    `checks` are the arguments of `nbdist.machine.checkup.checkup`, None for no checks; with them it also listens
    for others, until `StopListening`, so that they can try to reach this host. `kept` says that it goes on
    without a kernel, from `Keep` on: before, nobody could find it again; until then it ends with the
    process `kernel`, its parent, where that is known. `paths` are folders for the
    user's modules, relative ones in the copy of the user's files, where `cwd_copy` is the working folder if there
    is no `cwd`.
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
    order: Literal["assign"] = "assign"


@dataclass(frozen=True, slots=True, kw_only=True)
class NewProcess:
    """One engine that is to be started, and its variables."""

    process_id: int
    environment: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Start:
    """Starts engines; an agent that is a task of a job starts only its own."""

    processes: tuple[NewProcess, ...]
    order: Literal["start"] = "start"


@dataclass(frozen=True, slots=True, kw_only=True)
class Signal:
    """Sends a signal to engines."""

    number: int
    process_ids: tuple[int, ...]
    order: Literal["signal"] = "signal"


@dataclass(frozen=True, slots=True, kw_only=True)
class Connect:
    """Says where the controller is, and the session's key: ipyparallel's connection file for engines."""

    connection: Mapping[str, Any]
    order: Literal["connect"] = "connect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collect:
    """Says where a task gets the connection file from, past a stream that others may read.

    `address` is such as `tcp://10.0.0.1:40123`, `server_key` the public key (CURVE) there, in Z85; see
    `nbdist.agent.handover`.
    """

    address: str
    server_key: str
    order: Literal["collect"] = "collect"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reach:
    """Tries to connect to these addresses and ports of other hosts."""

    targets: tuple[tuple[str, int], ...]
    order: Literal["reach"] = "reach"


@dataclass(frozen=True, slots=True, kw_only=True)
class StopListening:
    """All others have tried to reach this host."""

    order: Literal["stop_listening"] = "stop_listening"


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """Asks engines for one thing past their main threads; see `nbdist.contract.asides`.

    `what` is a letter; `question` goes with it, for engines to read in a file.
    """

    what: str
    process_ids: tuple[int, ...]
    question: Question | None = None
    order: Literal["ask"] = "ask"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReservePorts:
    """Reserves so many ports for processes that are to serve anew, and releases those of before."""

    number: int
    count: int
    order: Literal["reserve_ports"] = "reserve_ports"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinate:
    """Starts a coordination service beside a process; `port` None: one that is free."""

    number: int
    process_id: int
    host: str
    port: int | None
    processes: int
    order: Literal["coordinate"] = "coordinate"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relay:
    """Has the processes of this host reach the coordination service `number`, at `address`, through its agent."""

    number: int
    address: str
    order: Literal["relay"] = "relay"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndCoordination:
    """Ends a coordination service."""

    number: int
    order: Literal["end_coordination"] = "end_coordination"


@dataclass(frozen=True, slots=True, kw_only=True)
class RestartController:
    """Starts ipyparallel's controller again where it has ended: at the same ports, with the same keys."""

    order: Literal["restart_controller"] = "restart_controller"


@dataclass(frozen=True, slots=True, kw_only=True)
class Keep:
    """From now on it may go on without a kernel, since another can find it."""

    order: Literal["keep"] = "keep"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stop:
    """Ends all, where no end of input can say so."""

    order: Literal["stop"] = "stop"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """The kernel is there."""

    order: Literal["alive"] = "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedFile:
    """A file of the user's, as it is to be; `mode` as `os.stat` has it, `size` in bytes."""

    name: str
    size: int
    mode: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ListFiles:
    """A part of the list of all files there are to be in the copy called `id`; names are relative to it."""

    id: str
    files: tuple[ListedFile, ...]
    order: Literal["list_files"] = "list_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class AskForFiles:
    """Asks which of the files that were listed are needed."""

    id: str
    order: Literal["ask_for_files"] = "ask_for_files"


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteFile:
    """A piece of one file, `data` in Base64; the last has the digest of the whole."""

    id: str
    name: str
    data: str
    sha256: str | None = None
    order: Literal["write_file"] = "write_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class DropFile:
    """A file that was listed is no longer there."""

    id: str
    name: str
    order: Literal["drop_file"] = "drop_file"


@dataclass(frozen=True, slots=True, kw_only=True)
class CommitFiles:
    """Puts the new files in the places of the old ones."""

    id: str
    order: Literal["commit_files"] = "commit_files"


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
    | Alive
    | FileOrder
)


def to_line(order: Order) -> bytes:
    """An order as it is sent, with the end of its line.

    Raises:
      WireError: It has something JSON has no form for.
    """
    return json.dumps(encode(order)).encode() + b"\n"


def from_line(line: bytes) -> Order:
    """An order as it has come.

    Raises:
      WireError: It is no order, or one of another shape.
    """
    order: Order = decode(Order, json.loads(line))  # type: ignore[arg-type]
    return order


def version_of(line: bytes) -> str | None:
    """The version of the kernel that a first order comes from; None where it does not say."""
    data = json.loads(line)
    found = data.get("nbdist") if isinstance(data, dict) else None
    return found if isinstance(found, str) else None
