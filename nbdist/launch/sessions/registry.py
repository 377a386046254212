"""Registry of this user's running sessions: one private file each, so that other kernels find them.

The files lie in the user's state folder (`XDG_STATE_HOME`, by default `~/.local/state`). A session writes its own
file when it is up and removes it when it is stopped. Listing removes files of sessions that have ended.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbdist.contract.wire import decode, encode
from nbdist.errors import SessionError, WireError
from nbdist.launch.agents.fifo_channel import FoundAgain, Spot
from nbdist.machine.folder import write_private
from nbdist.machine.processes import ProcessHandle, found
from nbdist.spelling import start_with

STOP_SECONDS = 4.0
"""Seconds an agent may take to stop everything it has started, before it is killed."""

FIRST_PID_NAMESPACE = f"pid:[{0xEFFFFFFC}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentMark:
    """One agent, or the command on this machine that leads to it.

    `spot` is where its orders and events lie; None if it ends with its kernel.
    """

    name: str
    pid: int
    began: str
    log: str
    spot: Spot | None = None

    @property
    def process(self) -> ProcessHandle:
        """The process of the agent or command; it may have ended."""
        return ProcessHandle(self.pid, self.began)


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One session that runs.

    `machine` distinguishes this machine from others of its name, since several containers may have one name.
    `installation` stays the same after a reboot, and is empty if unknown. `parents` are the agents, that of this
    machine first. `state` is read by `nbdist.launch.sessions.recorded` alone. Times are Unix seconds.
    """

    id: str
    nbdist: str
    python: str
    created: float
    kept: bool
    host: str
    machine: str
    cwd: str
    folder: str
    connection: str
    framework: str
    hosts: tuple[str, ...]
    processes: int
    parents: tuple[ParentMark, ...]
    kernels: tuple[ProcessHandle, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict)
    installation: str = ""

    @property
    def here(self) -> bool:
        """Whether the session was started on this machine; otherwise it is unknown here whether it runs."""
        return self.machine == this_machine()

    @property
    def place(self) -> str:
        """Where the session was started, for a person elsewhere: `host h2`."""
        if self.host != socket.gethostname():
            return f"host {self.host}"
        return f"{self.host} before a restart of it, or in another container of that name"

    @property
    def ended_by_reboot(self) -> bool:
        """Whether this machine has rebooted since the start, so that nothing of the session runs any more."""
        return bool(self.installation) and (
            self.installation == this_installation()
            and _boot(self.machine) != _boot(this_machine())
        )

    @property
    def running(self) -> bool:
        """Whether the session's agent on this machine still runs."""
        return bool(self.parents) and self.parents[0].process.running

    @property
    def attached(self) -> tuple[ProcessHandle, ...]:
        """The kernels that are attached and alive."""
        return tuple(one for one in self.kernels if one.running)


def folder() -> Path:
    """Return the folder of the files; `NBDIST_STATE` names another place."""
    own = os.environ.get("NBDIST_STATE")
    if own:
        return Path(own) / "sessions"
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "nbdist" / "sessions"


def this_machine() -> str:
    """Return a text that distinguishes this machine, and this container of it, from others with the same name."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def this_installation() -> str:
    """Return a text that identifies this machine even after a reboot; empty if there is none.

    A container has none, since containers on several machines may share host name and machine id. Source:
    machine-id(5); `FIRST_PID_NAMESPACE` is `PROC_PID_INIT_INO` in Linux's include/linux/proc_ns.h.
    """
    with contextlib.suppress(OSError):
        if str(Path("/proc/self/ns/pid").readlink()) == FIRST_PID_NAMESPACE:
            number = Path("/etc/machine-id").read_text().strip()
            return f"{socket.gethostname()} {number}" if number else ""
    return ""


def _boot(machine: str) -> str:
    """Return the part of `this_machine` that a reboot changes."""
    _, boot, *_ = [*machine.split(" "), "", ""]
    return boot


def python() -> str:
    """Return this interpreter's version, such as `3.11.9`."""
    return ".".join(map(str, sys.version_info[:3]))


def this_kernel() -> ProcessHandle:
    """Return this process, as an attached kernel."""
    return found(os.getpid()) or ProcessHandle(os.getpid(), "")


def write(record: Record) -> None:
    """Write a session's file, or overwrite it.

    Raises:
      OSError: It cannot be written; such a session is not listed, and cannot be found again.
    """
    write_private(folder() / f"{record.id}.json", encode(record))


def remove(session: str) -> None:
    """Remove a session's file, if there is one."""
    with contextlib.suppress(OSError):
        (folder() / f"{session}.json").unlink()


def attach(record: Record) -> Record:
    """Note that this kernel is attached as well; return the changed record."""
    mine = this_kernel()
    others = tuple(one for one in record.attached if one != mine)
    changed = replace(record, kernels=(*others, mine))
    write(changed)
    return changed


def detach(session: str) -> None:
    """Note that this kernel is no longer attached."""
    record = read(folder() / f"{session}.json")
    if record is not None:
        mine = this_kernel()
        with contextlib.suppress(OSError):
            write(replace(record, kernels=tuple(k for k in record.attached if k != mine)))


def other_kernels(session: str) -> frozenset[int]:
    """Return the process ids of the other kernels that are attached to a session and alive."""
    record = read(folder() / f"{session}.json")
    return (
        frozenset(k.pid for k in record.attached if k.pid != os.getpid()) if record else frozenset()
    )


def read(path: Path) -> Record | None:
    """Return the record in one file; None if it cannot be read."""
    with contextlib.suppress(OSError, ValueError, WireError):
        data = json.loads(path.read_text())
        # A later version may have more fields, which a dataclass ignores.
        return decode(Record, data)
    return None


def sessions() -> list[Record]:
    """Return all running sessions, the oldest first; remove the files of the others."""
    records = [one for path in folder().glob("*.json") if (one := read(path)) is not None]
    alive = []
    for record in sorted(records, key=lambda one: one.created):
        if record.ended_by_reboot or (record.here and not record.running):
            _clean(record)
        else:
            alive.append(record)
    return alive


def _clean(record: Record) -> None:
    """Remove the files of a session that ended without being stopped."""
    remove(record.id)
    if record.ended_by_reboot or not record.attached:
        _remove_folder(record)


def _remove_folder(record: Record) -> None:
    # Only a folder with a name that nbdist gives, whatever the file says.
    if Path(record.folder).name.startswith("nbdist-"):
        shutil.rmtree(record.folder, ignore_errors=True)


def find(word: str) -> Record:
    """Return the session that `word` names: an id, the beginning of one, or `last`.

    `last` is the newest session of this machine that is kept.

    Raises:
      SessionError: There is none, none is kept, or `word` is the beginning of several; the text lists the existing
        sessions.
    """
    running = sessions()
    if word == "last":
        candidates = [one for one in running if one.here]
        kept = [one for one in candidates if one.kept]
        if not candidates:
            raise SessionError(
                f"No session of yours runs on {socket.gethostname()}.{_how_to_keep()}"
            )
        if not kept:
            known = "; ".join(map(one_line, candidates))
            raise SessionError(
                f"'last' is the newest session that is kept, and none is. Running: {known}. Name one by its id."
                f"{_how_to_keep()}"
            )
        return kept[-1]
    fitting = [one for one in running if one.id == word] or [
        one for one in running if one.id.startswith(word)
    ]
    if len(fitting) != 1:
        known = "; ".join(one_line(one) for one in running) or "none"
        what = "is the beginning of several" if fitting else "is no session that runs"
        raise SessionError(f"{word!r} {what}. Running: {known}.{'' if running else _how_to_keep()}")
    return fitting[0]


def _how_to_keep() -> str:
    return f" {start_with('keep', True)} starts one that outlives its kernel."


def one_line(record: Record) -> str:
    """Return a line such as `3f2a9c1d (2 processes on h1, jax, kept)`."""
    where = ", ".join(record.hosts)
    kept = ", kept" if record.kept else ""
    return f"{record.id} ({record.processes} processes on {where}, {record.framework}{kept})"


def stop(record: Record) -> bool:
    """Stop all processes of a session, each agent by its handle; return whether they were running.

    A kept session is stopped by an order; the agents of any other session get SIGTERM, on which they stop
    everything they have started. The agent of this machine is stopped last: it has the controller, and engines
    wait for that.

    Raises:
      SessionError: It runs on another machine.
    """
    if not record.here:
        raise SessionError(
            f"Session {record.id} was started on {record.place}. Stop it there: nbdist stop {record.id}. If that "
            f"machine or container is gone for good, nbdist stop --forget {record.id} takes it off this list."
        )
    was_running = record.running
    home, others = record.parents[:1], record.parents[1:]
    for marks in (others, home):
        _stop_all(marks)
    attached = record.attached
    remove(record.id)
    if record.kept or not attached:
        _remove_folder(record)
    return was_running


def forget(record: Record) -> None:
    """Remove a session whose machine is gone from the list; stop nothing.

    Raises:
      SessionError: The session is one of this machine.
    """
    if record.here:
        raise SessionError(
            f"Session {record.id} is one of this machine: nbdist stop {record.id} ends it."
        )
    remove(record.id)


def _stop_all(marks: Iterable[ParentMark]) -> None:
    marks = tuple(marks)
    for mark in marks:
        _tell_to_stop(mark)
    deadline = time.monotonic() + STOP_SECONDS
    for mark in marks:
        process = mark.process
        if not process.wait(max(0.0, deadline - time.monotonic())):
            process.signal(9)  # what it has started is signalled by the operating system
            process.wait(1.0)


def _tell_to_stop(mark: ParentMark) -> None:
    process = mark.process
    if not process.running:
        return
    if mark.spot is not None:
        with contextlib.suppress(OSError):
            channel = FoundAgain(mark.spot)
            channel.end()
            channel.close()
            return
    process.signal(15)
