"""Events that the agent of a host reports to the kernel: one class for each type, one JSON object per line.

An event travels with the time at which it was written (Unix seconds) and, if it comes from a task of a job, with
the number of the task. The processes of a job that a scheduler has started share one stream, and its carrier cuts
long lines and mixes lines of different tasks; there each line is short and names its task.
"""

from __future__ import annotations

import contextlib
import json
import re
import time
from typing import Any, TextIO

from nbdist.contract.checkup import Checkup, Connection
from nbdist.contract.wire import Data, Tagged, decode, encode
from nbdist.version import __version__


class _Event(Tagged, tag_field="event"):
    """A line from an agent."""


class Host(_Event):
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


class OtherVersion(_Event):
    """This host has another version of nbdist than the kernel, and does nothing for it."""

    host: str
    nbdist: str


class Refused(_Event):
    """The agent cannot use a folder: the working folder of its processes, or that for the session's files."""

    host: str
    folder: str | None
    error: str
    working: bool = False


class ImportFailed(_Event, tag="failed"):
    """A module that all engines need could not be imported."""

    module: str
    error: str
    trace: str


class Preloaded(_Event):
    """All modules that engines need have been imported."""

    seconds: float


class Started(_Event):
    """A process has been forked."""

    process_id: int
    pid: int


class Exited(_Event):
    """A process has ended; `code` and the fields after it as in `nbdist.launch.model.happenings.ProcessExit`."""

    process_id: int
    pid: int
    code: int
    oom: bool
    last_lines: tuple[str, ...]


class Collects(_Event):
    """A task asks for the connection file and sends this public key, in Z85; see `nbdist.agent.kernel_link`."""

    public_key: str


class Reached(_Event):
    """How the attempts to connect ended, in the order of `Reach.targets`."""

    answers: tuple[Connection, ...]


class Reserved(_Event):
    """Answer `number`: these ports of this host are reserved for processes that are to serve anew."""

    number: int
    ports: tuple[int, ...]


class Coordinating(_Event):
    """A coordination service listens at `address`; if None, it does not, and wrote `last_lines`."""

    number: int
    address: str | None
    last_lines: tuple[str, ...]


class Relaying(_Event):
    """Processes of this host reach coordination service `number` at its `port`; if None, `error` says why not."""

    number: int
    port: int | None
    error: str | None = None


class FilesNeeded(_Event):
    """Numbers, in the list, of the listed files that are needed."""

    id: str
    needs: tuple[int, ...]


class FilesDone(_Event):
    """The copy is now as listed; the fields are numbers of files."""

    id: str
    sent: int
    files: int
    removed: int


class FilesFailed(_Event):
    """The copy could not be updated and stays as it was."""

    id: str
    error: str


class Alive(_Event):
    """The agent is alive."""


class Stopped(_Event):
    """The session ends, since somebody stopped it."""


class Terminated(_Event):
    """The scheduler ends this task; the scheduler itself reports why."""


class Fault(_Event):
    """An order could not be obeyed and was skipped; `text` is one sentence."""

    text: str


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


class Received(Data):
    """An event as it has arrived: when it was written, and by which task of a job; None if it is of no job."""

    event: Event
    time: float
    task: int | None = None


LINE_CHARACTERS = 600
"""The most characters of an event in one line of a task: Slurm forwards pieces of 1024 bytes
(slurmd/slurmstepd/io.c), and JSON is plain ASCII here."""


class Events:
    """Writer of events.

    Args:
      stream: The stream that the kernel reads.
      task: The number of this task; None for a parent with a stream of its own.
    """

    def __init__(self, stream: TextIO, task: int | None = None) -> None:
        self._stream = stream
        self._task = task

    @property
    def descriptor(self) -> int:
        """The file descriptor of the stream."""
        return self._stream.fileno()

    def send(self, event: Event) -> None:
        """Write one event; if the kernel no longer listens, raise nothing, since the end of input shows that."""
        text = json.dumps({**encode(event), "time": time.time()})
        # Open MPI must not take "<" for the start of one of its tags. In JSON it occurs only inside strings.
        lines = [text] if self._task is None else in_lines(text.replace("<", "\\u003c"), self._task)
        with contextlib.suppress(OSError, ValueError):
            self._stream.write("".join(f"{line}\n" for line in lines))
            self._stream.flush()


def in_lines(text: str, task: int) -> list[str]:
    """Return an event of a task as lines short enough to stay whole.

    A line is `nbdist TASK LAST text`, where `LAST` is 1 for the end of an event and 0 for a part of one.
    """
    parts = [text[i : i + LINE_CHARACTERS] for i in range(0, len(text), LINE_CHARACTERS)]
    return [f"nbdist {task} {int(part is parts[-1])} {part}" for part in parts]


class Lines:
    """Reader of lines that `Events` of any number of tasks have written; other lines are ignored.

    Slurm forwards the lines of a task whole. Open MPI forwards what it has just read, which may end anywhere, but
    names the task before each piece (`mpirun --tag-output`).
    """

    _TASK = re.compile(rb"(?:^|\s)nbdist (\d+) ([01]) (.*)$")
    _TAG = re.compile(rb"\[\d+,(\d+)\]<stdout>:")

    def __init__(self) -> None:
        self._parts: dict[int, bytes] = {}
        self._pieces: dict[bytes, bytes] = {}

    def take(self, line: bytes) -> Received | None:
        """Return the event that this line completes, if any.

        Raises:
          WireError: The line is an event and has another shape.
        """
        line = self._whole(line).rstrip(b"\r\n")
        found = self._TASK.search(line)
        if found is None:
            return self._event(line) if line.startswith(b"{") else None
        task, last, part = int(found[1]), found[2] == b"1", found[3]
        whole = self._parts.pop(task, b"") + part
        if not last:
            self._parts[task] = whole
            return None
        return self._event(whole, task)

    def _whole(self, line: bytes) -> bytes:
        """Return the line that ends here, put together from the earlier pieces of its task."""
        if not line.startswith(b"["):
            return line
        _, *tagged = self._TAG.split(line)
        task = b""
        for task, piece in zip(tagged[::2], tagged[1::2], strict=True):
            self._pieces[task] = self._pieces.get(task, b"") + piece
        return self._pieces.pop(task, line)

    @staticmethod
    def _event(text: bytes, task: int | None = None) -> Received | None:
        try:
            data = json.loads(text)
        except ValueError:
            return None
        return received(data, task) if isinstance(data, dict) and "event" in data else None


def received(data: dict[str, Any], task: int | None) -> Received:
    """Return an event from its plain data; of a host with another version of nbdist, only read the version.

    Raises:
      WireError: The data has another shape.
    """
    data = dict(data)
    moment = data.pop("time", None)
    if data.get("event") == "host" and data.get("nbdist") != __version__:
        data = {
            "event": "other_version",
            "host": data.get("host"),
            "nbdist": data.get("nbdist"),
        }
    event: Event = decode(Event, data)  # type: ignore[arg-type]
    return Received(event=event, time=moment if type(moment) is float else time.time(), task=task)
