"""One copying of the user's files to one host, or to all tasks of a job, on a thread of its own.

See `nbdist.agent.sync` for the orders.
"""

from __future__ import annotations

import base64
import hashlib
import logging
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.launch.agents.agent_handle import AgentHandle
from nbdist.launch.files.listing import FILE_BYTES, File
from nbdist.launch.model.progress import POLL_SECONDS

logger = logging.getLogger(__name__)

PIECE_BYTES = 96 << 10
"""Of a file in one order, which is a third longer; signals and pings go in between."""

LISTED = 200
"""How many files one order announces."""

ANSWER_SECONDS = 120.0
"""How long a host that is there may say nothing about files."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy:
    """How one host's copy was made the same: numbers of files."""

    sent: int
    unchanged: int
    removed: int


class _Stopped(Exception):
    """Nothing more is to be sent to this host."""


class Sending:
    """One copying to one host, or to all tasks of a job, on a thread of its own.

    Args:
      parent: The way there.
      name: Of this copying; another has another.
      listed: All files there are to be, each with its digest.
      ask: Whether the host may have some of them.
    """

    def __init__(
        self, parent: AgentHandle, name: str, listed: Sequence[tuple[File, str]], *, ask: bool
    ) -> None:
        self.parent = parent
        self.error: str | None = None
        self.needed: list[str] = []
        self.written = False
        self._name = name
        self._listed = listed
        self._ask = ask
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="nbdist-sync", daemon=True)
        parent.copying.clear()
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether it is still at it."""
        return self._thread.is_alive()

    def stop(self) -> None:
        """Has it end after the order it is at."""
        self._stop.set()

    def hosts(self) -> dict[str, HostCopy]:
        """What each host has done; those that have not said so are missing."""
        return {
            host_of(self.parent, event): HostCopy(
                sent=event["done"]["sent"],
                unchanged=event["done"]["files"] - event["done"]["sent"],
                removed=event["done"]["removed"],
            )
            for event in sorted(self._heard("done"), key=lambda event: event.get("task", 0))
        }

    def _heard(self, what: str) -> list[dict[str, Any]]:
        return [
            event
            for event in list(self.parent.copying)
            if event["id"] == self._name and what in event
        ]

    def _run(self) -> None:
        try:
            self._send()
        except _Stopped as stopped:
            self.error = str(stopped)
        except Exception as error:
            # Such as an answer of a wrong shape: whoever waits for this copying must learn of it.
            logger.exception("files could not be brought to %s", self.parent.reach.name)
            self.error = f"{type(error).__name__}: {error}"

    def _send(self) -> None:
        for first in range(0, len(self._listed), LISTED):
            part = self._listed[first : first + LISTED]
            self._order(files=[[f.name, f.size, f.mode, digest] for f, digest in part])
        numbers: Collection[int] = range(len(self._listed))
        if self._ask:
            self._order(ask=True)
            # The tasks of a job all hear the same, and each takes what it lacks or has already.
            numbers = {n for event in self._wait("needs") for n in event["needs"]}
        for number in sorted(numbers):
            file, _ = self._listed[number]
            self.needed.append(file.name)
            self._send_file(file)
        self._order(commit=True)
        self.written = True
        self._wait("done")

    def _send_file(self, file: File) -> None:
        try:
            with file.path.open("rb") as opened:
                self._send_pieces(file.name, opened.read)
        except OSError:
            self._order(drop=file.name)  # it has gone since it was listed

    def _send_pieces(self, name: str, read: Callable[[int], bytes]) -> None:
        digest, size = hashlib.sha256(), 0
        piece = read(PIECE_BYTES)
        while True:
            following = read(PIECE_BYTES)
            digest.update(piece)
            size += len(piece)
            if size > FILE_BYTES:
                raise OSError("it grows while it is read")
            end = {} if following else {"sha256": digest.hexdigest()}
            self._order(file=name, data=base64.b64encode(piece).decode(), **end)
            if not following:
                return
            piece = following

    def _order(self, **what: Any) -> None:
        self._check()
        self.parent.order({"sync": {"id": self._name, **what}})

    def _wait(self, what: str) -> list[dict[str, Any]]:
        """What each task, or the one parent there is, answers."""
        deadline = time.monotonic() + ANSWER_SECONDS
        while len(heard := self._heard(what)) < max(1, len(self.parent.facts)):
            self._check()
            if time.monotonic() > deadline and self._ask:
                raise _Stopped(f"no answer within {ANSWER_SECONDS:g} s")
            time.sleep(POLL_SECONDS)
        self._check()
        return heard

    def _check(self) -> None:
        for event in self._heard("error"):
            host = f" (host {host_of(self.parent, event)})" if "task" in event else ""
            raise _Stopped(f"{event['error']}{host}")
        if self._stop.is_set():
            raise _Stopped("interrupted")
        if self.parent.ended_at is not None:
            raise _Stopped("the connection has ended")


def host_of(parent: AgentHandle, event: Mapping[str, Any]) -> str:
    """The host that an event comes from."""
    if "task" not in event:
        return parent.reach.name
    facts = parent.facts.get(event["task"])
    return facts.host if facts is not None else f"of task {event['task']}"
