"""Events that the agent of a host reports to the kernel: one dataclass for each type.

An event travels with the time at which it was written (Unix seconds) and, if it comes from a task of a job, with
the number of the task; see `nbdist.contract.lines`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nbdist.contract.checkup import Checkup, Connection


@dataclass(frozen=True, slots=True, kw_only=True)
class Host:
    """The first event: the identity of this host.

    `address` and `listening` are where others can try to reach it; `ports` are reserved for its processes.
    `checks` is the result of `nbdist.machine.checkup.checkup`, if a checkup was asked for.
    """

    host: str
    pid: int
    nbdist: str
    folder: str
    cwd: str
    address: str | None
    listening: int | None
    ports: tuple[int, ...]
    checks: Checkup | None
    event: Literal["host"] = "host"


@dataclass(frozen=True, slots=True, kw_only=True)
class OtherVersion:
    """This host has another version of nbdist than the kernel, and does nothing for it."""

    host: str
    nbdist: str
    event: Literal["other_version"] = "other_version"


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """The agent cannot work here, for example not in this folder."""

    host: str
    folder: str | None
    error: str
    event: Literal["refused"] = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportFailed:
    """A module that all engines need could not be imported."""

    module: str
    error: str
    trace: str
    event: Literal["failed"] = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Preloaded:
    """All modules that engines need have been imported."""

    seconds: float
    event: Literal["preloaded"] = "preloaded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process has been forked."""

    process_id: int
    pid: int
    event: Literal["started"] = "started"


@dataclass(frozen=True, slots=True, kw_only=True)
class Exited:
    """A process has ended; `code` and the fields after it as in `nbdist.launch.model.exits.ProcessExit`."""

    process_id: int
    pid: int
    code: int
    oom: bool
    last_lines: tuple[str, ...]
    event: Literal["exited"] = "exited"


@dataclass(frozen=True, slots=True, kw_only=True)
class Collects:
    """A task asks for the connection file and sends this public key, in Z85; see `nbdist.agent.handover`."""

    public_key: str
    event: Literal["collects"] = "collects"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """How the attempts to connect ended, in the order of `Reach.targets`."""

    answers: tuple[Connection, ...]
    event: Literal["reached"] = "reached"


@dataclass(frozen=True, slots=True, kw_only=True)
class Reserved:
    """Answer `number`: these ports of this host are reserved for processes that are to serve anew."""

    number: int
    ports: tuple[int, ...]
    event: Literal["reserved"] = "reserved"


@dataclass(frozen=True, slots=True, kw_only=True)
class Coordinating:
    """A coordination service listens at `address`; if None, it does not, and wrote `last_lines`."""

    number: int
    address: str | None
    last_lines: tuple[str, ...]
    event: Literal["coordinating"] = "coordinating"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaying:
    """Processes of this host reach coordination service `number` at its `port`; if None, `error` says why not."""

    number: int
    port: int | None
    error: str | None = None
    event: Literal["relaying"] = "relaying"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesNeeded:
    """Numbers, in the list, of the listed files that are needed."""

    id: str
    needs: tuple[int, ...]
    event: Literal["files_needed"] = "files_needed"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesDone:
    """The copy is now as listed; the fields are numbers of files."""

    id: str
    sent: int
    files: int
    removed: int
    event: Literal["files_done"] = "files_done"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesFailed:
    """The copy could not be updated and stays as it was."""

    id: str
    error: str
    event: Literal["files_failed"] = "files_failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Alive:
    """The agent is alive."""

    event: Literal["alive"] = "alive"


@dataclass(frozen=True, slots=True, kw_only=True)
class Stopped:
    """The session ends, since somebody stopped it."""

    event: Literal["stopped"] = "stopped"


@dataclass(frozen=True, slots=True, kw_only=True)
class Terminated:
    """The scheduler ends this task; the scheduler itself reports why."""

    event: Literal["terminated"] = "terminated"


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """An order could not be obeyed and was skipped; `text` is one sentence."""

    text: str
    event: Literal["fault"] = "fault"


FileEvent = FilesNeeded | FilesDone | FilesFailed

Event = (
    Host
    | OtherVersion
    | Refused
    | ImportFailed
    | Preloaded
    | Started
    | Exited
    | Collects
    | Reached
    | Reserved
    | Coordinating
    | Relaying
    | FileEvent
    | Alive
    | Stopped
    | Terminated
    | Fault
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Received:
    """An event as it has arrived: when it was written, and by which task of a job; None if it is of no job."""

    event: Event
    time: float
    task: int | None = None
