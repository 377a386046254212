"""Copies of the user's files on the hosts, sent over the connection that leads to each agent there.

See `nbdist.agent.sync` and `FileOrder` in `nbdist.contract.orders`. Each host, or all tasks of a job, has a thread
of its own, so that a slow one delays no other and an interrupt of the notebook leaves no order half written.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TypeVar

from nbdist.agent.sync import FOLDER
from nbdist.contract.events import FilesDone, FilesFailed, FilesNeeded
from nbdist.contract.orders import (
    AskForFiles,
    CommitFiles,
    DropFile,
    FileOrder,
    ListedFile,
    ListFiles,
    WriteFile,
)
from nbdist.errors import OptionError, SyncError
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.files import (
    FILE_BYTES,
    File,
    Hashes,
    SyncPath,
    left_out_text,
    sources,
    walk,
)
from nbdist.launch.model.happenings import POLL_SECONDS
from nbdist.notation import count_text, processes_text, seconds_text
from nbdist.spelling import command

logger = logging.getLogger(__name__)

A = TypeVar("A", FilesDone, FilesFailed, FilesNeeded)

PIECE_BYTES = 96 << 10
"""Bytes of a file in one order, which Base64 makes a third longer; signals and heartbeats are sent in between."""

LISTED = 200
"""How many files one order announces."""

FILES_SECONDS = 120.0
"""Seconds a host that is alive may take to answer about files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy:
    """How one host's copy was brought up to date, in numbers of files."""

    sent: int
    unchanged: int
    removed: int


class _Stopped(Exception):
    """Raised when nothing more is to be sent to this host."""


class Sending:
    """One transfer to one host, or to all tasks of a job, on a thread of its own.

    Args:
      agent: The agent that receives the files.
      name: The unique name of this transfer.
      listed: All files of the copy, each with its digest.
      ask: Whether to ask first which files are needed, since the host may have some of them.
    """

    def __init__(
        self, agent: AgentHandle, name: str, listed: Sequence[tuple[File, str]], *, ask: bool
    ) -> None:
        self.agent = agent
        self.error: str | None = None
        self.needed: list[str] = []
        self.written = False
        self._name = name
        self._listed = listed
        self._ask = ask
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nbdist-sync", daemon=True)
        agent.copying.clear()
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether the transfer goes on."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Make the transfer end after its present order."""
        self._stop.set()

    def hosts(self) -> dict[str, HostCopy]:
        """Return the result of each host; hosts that have not reported it yet are missing."""
        done = sorted(self._answers(FilesDone), key=lambda answer: answer[0] or 0)
        return {
            host_of(self.agent, task): HostCopy(
                sent=event.sent, unchanged=event.files - event.sent, removed=event.removed
            )
            for task, event in done
        }

    def _answers(self, kind: type[A]) -> list[tuple[int | None, A]]:
        """Return the answers to this transfer, each with the task of a job that it comes from."""
        return [
            (task, event)
            for task, event in list(self.agent.copying)
            if isinstance(event, kind) and event.id == self._name
        ]

    def _run(self) -> None:
        try:
            self._send()
        except _Stopped as stopped:
            self.error = str(stopped)
        except Exception as error:
            # Such as a malformed answer; the thread that waits for this transfer must learn of it.
            logger.exception("files could not be brought to %s", self.agent.reach.name)
            self.error = f"{type(error).__name__}: {error}"

    def _send(self) -> None:
        for first in range(0, len(self._listed), LISTED):
            part = self._listed[first : first + LISTED]
            listed = [
                ListedFile(name=f.name, size=f.size, mode=f.mode, sha256=digest)
                for f, digest in part
            ]
            self._order(ListFiles(id=self._name, files=tuple(listed)))
        numbers: Collection[int] = range(len(self._listed))
        if self._ask:
            self._order(AskForFiles(id=self._name))
            # All tasks of a job receive the same orders, so each also gets files that only other tasks need.
            numbers = {n for event in self._wait(FilesNeeded) for n in event.needs}
        for number in sorted(numbers):
            file, _ = self._listed[number]
            self.needed.append(file.name)
            self._send_file(file)
        self._order(CommitFiles(id=self._name))
        self.written = True
        self._wait(FilesDone)

    def _send_file(self, file: File) -> None:
        try:
            with file.path.open("rb") as opened:
                self._send_pieces(file.name, opened.read)
        except OSError:
            self._order(DropFile(id=self._name, name=file.name))  # deleted since it was listed

    def _send_pieces(self, name: str, read: Callable[[int], bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        piece = read(PIECE_BYTES)
        while True:
            following = read(PIECE_BYTES)
            digest.update(piece)
            size += len(piece)
            if size > FILE_BYTES:
                raise OSError("it grows while it is read")
            self._order(
                WriteFile(
                    id=self._name,
                    name=name,
                    data=base64.b64encode(piece).decode(),
                    sha256=None if following else digest.hexdigest(),
                )
            )
            if not following:
                return
            piece = following

    def _order(self, order: FileOrder) -> None:
        self._check()
        self.agent.order(order)

    def _wait(self, kind: type[A]) -> list[A]:
        """Return the answers of all tasks, or of the one agent."""
        deadline = time.monotonic() + FILES_SECONDS
        while len(answers := self._answers(kind)) < max(1, len(self.agent.facts)):
            self._check()
            if time.monotonic() > deadline and self._ask:
                raise _Stopped(f"no answer within {FILES_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        self._check()
        return [event for _, event in answers]

    def _check(self) -> None:
        for task, event in self._answers(FilesFailed):
            host = f" (host {host_of(self.agent, task)})" if task is not None else ""
            raise _Stopped(f"{event.error}{host}")
        if self._stop.is_set():
            raise _Stopped("interrupted")
        if self.agent.ended_at is not None:
            raise _Stopped("the connection has ended")


def host_of(agent: AgentHandle, task: int | None) -> str:
    """Return the host that an answer comes from; `task` is the number of its task, None if there is no job."""
    if task is None:
        return agent.reach.name
    facts = agent.facts.get(task)
    return facts.host if facts is not None else f"of task {task}"


FIRST = "first"
"""The name of the transfer during a start; all other names are unique, in all kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """Result of one transfer.

    Attributes:
      hosts: Results by host name; empty if there is only this machine, which needs no copy.
      files: How many files there are.
      seconds: How long it took; None for the transfer during a start.
      left_out: Files that were not copied, with the reason.
      changed: Files that are new or different on some host, by name in the copy.
      lost: Hosts that can no longer be reached.
      old: By module, the processes that had imported it before it changed.
      busy: Processes in a cell, of which it is not known what they had imported.
    """

    hosts: Mapping[str, HostCopy]
    files: int
    seconds: float | None
    left_out: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    old: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    busy: tuple[int, ...] = ()

    @property
    def has_changes(self) -> bool:
        """Whether any process may see a file that differs from before."""
        return bool(self.changed) or any(copy.sent for copy in self.hosts.values())

    def text(self) -> str:
        """Return a line for hosts with equal results, then what a person must know."""
        same: dict[HostCopy, list[str]] = defaultdict(list)
        for host, done in self.hosts.items():
            same[done].append(host)
        took = "" if self.seconds is None else f", {seconds_text(self.seconds)}"
        lines = [f"{', '.join(hosts)}   {_words(done)}{took}" for done, hosts in same.items()]
        if self.lost:
            lines.append(f"{', '.join(self.lost)}   out of reach")
        if not lines:
            read = count_text(self.files, "file")
            lines = [f"this machine   {read}, read where they are"]
        left_out = left_out_text(self.left_out)
        if left_out is not None:
            lines.append(left_out)
        if self.old:
            modules = ", ".join(f"{name} ({processes_text(ids)})" for name, ids in self.old.items())
            lines.append(
                f"already imported: {modules}; importlib.reload({next(iter(self.old))}) in a cell loads the new "
                "version, as does autoreload"
            )
        if self.busy:
            lines.append(
                f"{processes_text(self.busy)} busy: what is already imported there is not known"
            )
        return "\n".join(lines)

    def __str__(self) -> str:
        return self.text()


def _words(done: HostCopy) -> str:
    words = [f"{count_text(done.sent, 'file')} sent"]
    if done.unchanged:
        words.append(f"{done.unchanged} unchanged")
    if done.removed:
        words.append(f"{done.removed} removed")
    return ", ".join(words)


class Files:
    """The user's files that a session keeps the same on all its hosts.

    Args:
      found: The paths that `--sync` names.

    Raises:
      OptionError: The files are too many or too large.
    """

    def __init__(self, found: Sequence[SyncPath]) -> None:
        self.sources = tuple(found)
        self._tree = walk(self.sources)
        self._hashes = Hashes()
        self._known: dict[str, str] = {}
        self._sendings: list[Sending] = []

    @property
    def local_folders(self) -> list[str]:
        """Folders to put on `sys.path` of processes on this machine."""
        return list(dict.fromkeys(str(source.base) for source in self.sources))

    @property
    def remote_folders(self) -> list[str]:
        """Folders to put on `sys.path` of processes elsewhere, inside the copy."""
        return [source.name for source in self.sources]

    def remote_cwd(self, cwd: Path) -> str | None:
        """Return where in the copy the working folder lies, or else the first source; None without sources."""
        copies = [
            where for source in self.sources if (where := source.path_in_copy(cwd)) is not None
        ]
        folders = [source.name for source in self.sources]
        return next(iter([*copies, *folders]), None)

    def path(self, name: str, folder: str | None) -> str:
        """Return where a file lies: in the session's `folder` on another machine, or on this machine (None)."""
        file = self._tree.files.get(name)
        if folder is None and file is not None:
            return str(file.path)
        return f"{folder}/{FOLDER}/{name}"

    def begin(self, others: Mapping[str, AgentHandle]) -> None:
        """Start sending all files to hosts that have none yet; see `written` and `first`."""
        self._start(others, ask=False)

    def written(self) -> bool:
        """Return whether `begin` has written everything, so that later orders arrive after the files."""
        return all(sending.written or not sending.running for sending in self._sendings)

    def first(self) -> Copied:
        """Return the result of the transfer during the start, which all hosts that came up have completed."""
        return self._done(None)

    def working_folders(self, others: Mapping[str, AgentHandle]) -> str | None:
        """Return a sentence about hosts whose working folder is the copy; None if every host has its own."""
        hosts = [
            name if task is None else facts.host
            for name, agent in others.items()
            for task, facts in sorted(agent.facts.items(), key=lambda item: item[0] or 0)
            if Path(facts.cwd).is_relative_to(Path(facts.folder).resolve() / FOLDER)
        ]
        if not hosts:
            return None
        return (
            f"{', '.join(dict.fromkeys(hosts))}   the working folder is the copy of {self._of_what()}; what "
            "cells write there is deleted with the session"
        )

    def _of_what(self) -> str:
        cwd = Path.cwd()
        within = any(source.path_in_copy(cwd) is not None for source in self.sources)
        return str(cwd if within else self.sources[0].path)

    def sync(self, others: Mapping[str, AgentHandle]) -> Copied:
        """Update the copies; send only what has changed.

        Raises:
          OptionError: The files have become too many or too large; nothing was sent.
          SyncError: Some hosts could not take the files, and keep what they had; the others have all new files.
        """
        began = time.monotonic()
        self._tree = walk(self.sources)
        before = dict(self._known)
        self._start(others, ask=True)
        try:
            while any(sending.running for sending in self._sendings):
                time.sleep(POLL_SECONDS)
        except BaseException:
            self.stop()
            self._known = before  # the changes are still to be sent
            raise
        needed = {name for sending in self._sendings for name in sending.needed}
        other = {name for name, digest in before.items() if self._known.get(name, digest) != digest}
        # A kernel that has attached does not know the earlier files, so it counts what the hosts needed.
        changed = other | (needed.intersection(before) if before else needed)
        failed = {s.agent.reach.name: s.error for s in self._sendings if s.error is not None}
        if failed:
            self._known = before
            raise SyncError(_failed(failed, [s for s in self._sendings if s.error is None]))
        return replace(
            self._done(time.monotonic() - began),
            changed=frozenset(changed),
            lost=tuple(name for name, agent in others.items() if agent.poll() is not None),
        )

    def stop(self) -> None:
        """Make running transfers end after their present order; do not wait."""
        for sending in self._sendings:
            sending.stop()

    def _start(self, others: Mapping[str, AgentHandle], *, ask: bool) -> None:
        while any(sending.running for sending in self._sendings):
            # An interrupted transfer ends after its present order, or with its host.
            time.sleep(POLL_SECONDS)
        digests = {name: self._hashes.of(file) for name, file in self._tree.files.items()}
        listed = [(self._tree.files[n], digest) for n, digest in digests.items() if digest]
        self._known = {file.name: digest for file, digest in listed}
        name = uuid.uuid4().hex if ask else FIRST
        living = [agent for agent in others.values() if agent.poll() is None]
        self._sendings = [Sending(agent, name, listed, ask=ask) for agent in living]

    def _done(self, seconds: float | None) -> Copied:
        hosts = {name: copy for sending in self._sendings for name, copy in sending.hosts().items()}
        return Copied(
            hosts=hosts,
            files=len(self._known),
            seconds=seconds,
            left_out=self._tree.left_out,
        )


def _failed(failed: Mapping[str, str], others: Collection[Sending]) -> str:
    text = "; ".join(f"host {name}: {error}" for name, error in failed.items())
    well = ", ".join(sending.agent.reach.name for sending in others)
    rest = f" {well} {'has' if len(others) == 1 else 'have'} the new ones." if well else ""
    return (
        f"Files could not be copied to {text}. The files there are unchanged.{rest} Fix that, then repeat "
        f"{command('sync_files')}."
    )


def reopen_files(paths: Sequence[str]) -> Files | None:
    """Return the files of a session that another kernel has started; None if there are none, or they are gone."""
    try:
        return Files(sources(paths)) if paths else None
    except OptionError:
        return None


def first_failure(agent: AgentHandle) -> tuple[str, str] | None:
    """Return the host that could not take the files at the start, and why; None if no host has failed."""
    for task, event in list(agent.copying):
        if isinstance(event, FilesFailed) and event.id == FIRST:
            return host_of(agent, task), event.error
    return None
