"""One transfer of the user's files to one host, or to all tasks of a job, on a thread of its own.

See `FileOrder` in `nbdist.contract.orders`.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TypeVar

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
from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.files.listing import FILE_BYTES, File
from nbdist.launch.model.happenings import POLL_SECONDS

A = TypeVar("A", FilesDone, FilesFailed, FilesNeeded)

logger = logging.getLogger(__name__)

PIECE_BYTES = 96 << 10
"""Bytes of a file in one order, which Base64 makes a third longer; signals and heartbeats are sent in between."""

LISTED = 200
"""How many files one order announces."""

ANSWER_SECONDS = 120.0
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
      name: The name of this transfer, which no other has.
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
        """Return the answers to this transfer, and the task of a job that each comes from."""
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
            # Such as an answer of a wrong shape: the thread that waits for this transfer must learn of it.
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
            # The tasks of a job all receive the same, and each takes what it lacks or has already.
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
            self._order(DropFile(id=self._name, name=file.name))  # it has gone since it was listed

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
        deadline = time.monotonic() + ANSWER_SECONDS
        while len(answers := self._answers(kind)) < max(1, len(self.agent.facts)):
            self._check()
            if time.monotonic() > deadline and self._ask:
                raise _Stopped(f"no answer within {ANSWER_SECONDS:g} s")
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
    """Return the host that an answer comes from, by the number of its task; None: the agent is of no job."""
    if task is None:
        return agent.reach.name
    facts = agent.facts.get(task)
    return facts.host if facts is not None else f"of task {task}"
