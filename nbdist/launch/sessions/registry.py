"""The sessions of this user that run, one private file each, so that they are found from elsewhere.

The files lie in the user's state folder (`XDG_STATE_HOME`, by default `~/.local/state`); a session writes its own
when it is up and removes it when it is stopped. Who looks removes those whose processes are gone.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbdist.errors import SessionError
from nbdist.launch.agents.fifo_channel import FoundAgain, Spot
from nbdist.launch.agents.process_handle import ProcessHandle, found
from nbdist.launch.model.plain import from_plain, to_plain
from nbdist.machine.folder import write_private
from nbdist.spelling import start_with

STOP_SECONDS = 4.0
"""What a parent may take to stop all it has started, before it is killed."""

FIRST_PID_NAMESPACE = f"pid:[{0xEFFFFFFC}]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """One kernel that is attached."""

    pid: int
    began: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ParentMark:
    """One parent, or the command on this machine that leads to it.

    `spot` is where its orders and events lie, None for one that ends with its kernel.
    """

    name: str
    pid: int
    began: str
    log: str
    spot: Spot | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Record:
    """One session that runs.

    `machine` is where, beyond its name: the same name may be given to several containers. `installation` is the
    same after a reboot, and empty where none is known. `parents` has that of this machine first. `state` is for
    `nbdist.launch.sessions`, which alone reads it. Times are Unix seconds.
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
    kernels: tuple[Kernel, ...] = ()
    state: dict[str, Any] = field(default_factory=dict)
    installation: str = ""

    @property
    def here(self) -> bool:
        """Whether it was started on this machine; only there can it be said whether it runs."""
        return self.machine == this_machine()

    @property
    def place(self) -> str:
        """Where it was started, for who is elsewhere: `host h2`."""
        if self.host != socket.gethostname():
            return f"host {self.host}"
        return f"{self.host} before a restart of it, or in another container of that name"

    @property
    def ended_by_reboot(self) -> bool:
        """Whether this machine has been started anew since, so that nothing of the session runs any more."""
        return bool(self.installation) and (
            self.installation == this_installation()
            and _boot(self.machine) != _boot(this_machine())
        )

    @property
    def running(self) -> bool:
        """Whether its parent on this machine still runs."""
        return (
            bool(self.parents) and ProcessHandle(self.parents[0].pid, self.parents[0].began).running
        )

    @property
    def attached(self) -> tuple[Kernel, ...]:
        """The kernels that are attached and live."""
        return tuple(one for one in self.kernels if ProcessHandle(one.pid, one.began).running)


def folder() -> Path:
    """Where the files are; `NBDIST_STATE` names another place."""
    own = os.environ.get("NBDIST_STATE")
    if own:
        return Path(own) / "sessions"
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state else Path.home() / ".local" / "state"
    return base / "nbdist" / "sessions"


def this_machine() -> str:
    """What identifies this machine, and this container of it, among others with the same name."""
    parts = [socket.gethostname()]
    with contextlib.suppress(OSError):
        parts.append(Path("/proc/sys/kernel/random/boot_id").read_text().strip())
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


def this_installation() -> str:
    """What identifies this machine also after a reboot; empty where that is not known.

    Containers on several machines may share all of it: in one of them it is not known. Source: machine-id(5); the
    number is that of the first PID namespace, `PROC_PID_INIT_INO` in Linux's include/linux/proc_ns.h.
    """
    with contextlib.suppress(OSError):
        if str(Path("/proc/self/ns/pid").readlink()) == FIRST_PID_NAMESPACE:
            number = Path("/etc/machine-id").read_text().strip()
            return f"{socket.gethostname()} {number}" if number else ""
    return ""


def _boot(machine: str) -> str:
    """The part of `this_machine` that a reboot changes."""
    _, boot, *_ = [*machine.split(" "), "", ""]
    return boot


def python() -> str:
    """This interpreter's version, such as `3.11.9`."""
    return ".".join(map(str, sys.version_info[:3]))


def this_kernel() -> Kernel:
    """This process, as one that is attached."""
    me = found(os.getpid())
    return Kernel(pid=os.getpid(), began=me.began if me else "")


def write(record: Record) -> None:
    """Writes a session's file, or writes it anew.

    Raises:
      OSError: It cannot be written; such a session is not listed, and cannot be found again.
    """
    write_private(folder() / f"{record.id}.json", to_plain(record))


def remove(session: str) -> None:
    """Removes a session's file, if there is one."""
    with contextlib.suppress(OSError):
        (folder() / f"{session}.json").unlink()


def come(record: Record) -> Record:
    """Notes that this kernel is attached, too."""
    mine = this_kernel()
    others = tuple(one for one in record.attached if one != mine)
    changed = replace(record, kernels=(*others, mine))
    write(changed)
    return changed


def go(session: str) -> None:
    """Notes that this kernel is no longer attached."""
    record = read(folder() / f"{session}.json")
    if record is not None:
        mine = this_kernel()
        with contextlib.suppress(OSError):
            write(replace(record, kernels=tuple(k for k in record.attached if k != mine)))


def others(session: str) -> frozenset[int]:
    """The numbers of the other kernels that are attached to a session and live."""
    record = read(folder() / f"{session}.json")
    return (
        frozenset(k.pid for k in record.attached if k.pid != os.getpid()) if record else frozenset()
    )


def read(path: Path) -> Record | None:
    """What one file says; None where it cannot be read."""
    with contextlib.suppress(OSError, ValueError):
        return from_plain(Record, json.loads(path.read_text()))
    return None


def sessions() -> list[Record]:
    """All that run, the oldest first; the files of those that do not are removed."""
    records = [one for path in folder().glob("*.json") if (one := read(path)) is not None]
    alive = []
    for record in sorted(records, key=lambda one: one.created):
        if record.ended_by_reboot or (record.here and not record.running):
            _clean(record)
        else:
            alive.append(record)
    return alive


def _clean(record: Record) -> None:
    """Removes what a session has left that ended without being stopped."""
    remove(record.id)
    if record.ended_by_reboot or not record.attached:
        _remove_folder(record)


def _remove_folder(record: Record) -> None:
    # Nothing but what a session of ours has made, whatever a file may say.
    if Path(record.folder).name.startswith("nbdist-"):
        shutil.rmtree(record.folder, ignore_errors=True)


def find(word: str) -> Record:
    """The session that `word` names: an id, the beginning of one, or `last`.

    `last` is the newest of this machine that is kept.

    Raises:
      SessionError: There is none, none is kept, or `word` is the beginning of several; the text lists those
        there are.
    """
    there = sessions()
    if word == "last":
        candidates = [one for one in there if one.here]
        kept = [one for one in candidates if one.kept]
        if not candidates:
            raise SessionError(f"No session of yours runs on {socket.gethostname()}.{_kept_by()}")
        if not kept:
            known = "; ".join(map(one_line, candidates))
            raise SessionError(
                f"'last' is the newest session that is kept, and none is. Running: {known}. Name one by its id."
                f"{_kept_by()}"
            )
        return kept[-1]
    fitting = [one for one in there if one.id == word] or [
        one for one in there if one.id.startswith(word)
    ]
    if len(fitting) != 1:
        known = "; ".join(one_line(one) for one in there) or "none"
        what = "is the beginning of several" if fitting else "is no session that runs"
        raise SessionError(f"{word!r} {what}. Running: {known}.{'' if there else _kept_by()}")
    return fitting[0]


def _kept_by() -> str:
    return f" {start_with('keep', True)} starts one that outlives its kernel."


def one_line(record: Record) -> str:
    """Such as `3f2a9c1d (2 processes on h1, jax, kept)`."""
    where = ", ".join(record.hosts)
    kept = ", kept" if record.kept else ""
    return f"{record.id} ({record.processes} processes on {where}, {record.framework}{kept})"


def stop(record: Record) -> bool:
    """Stops all processes of a session, by handle; answers whether they were running.

    A kept one is asked through its orders; the parents of another get SIGTERM, on which they stop what they have
    started. That of this machine goes last: it has the controller, and engines that are left alone wait for it.

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
    """Takes a session off the list whose machine is gone; nothing is stopped.

    Raises:
      SessionError: It is one of this machine.
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
        process = ProcessHandle(mark.pid, mark.began)
        if not process.wait(max(0.0, deadline - time.monotonic())):
            process.signal(9)  # what it has started is signalled by the operating system
            process.wait(1.0)


def _tell_to_stop(mark: ParentMark) -> None:
    process = ProcessHandle(mark.pid, mark.began)
    if not process.running:
        return
    if mark.spot is not None:
        with contextlib.suppress(OSError):
            channel = FoundAgain(mark.spot)
            channel.end()
            channel.close()
            return
    process.signal(15)
