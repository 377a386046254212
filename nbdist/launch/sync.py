"""Bringing the user's files to the hosts, over the connection that leads to each parent there.

See `nbdist.engine.sync` for the orders. Each host has a thread of its own, so that a slow one delays no other,
and an interrupt of the notebook leaves no order half written.
"""

from __future__ import annotations

import base64
import hashlib
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from nbdist.engine.sync import FOLDER
from nbdist.errors import SyncError
from nbdist.launch.files import FILE_BYTES, File, Hashes, Source, left_out_text, walk
from nbdist.launch.parent import Parent
from nbdist.launch.tell import POLL_SECONDS
from nbdist.quantities import count_text, processes_text, seconds_text

PIECE_BYTES = 96 << 10
"""Of a file in one order, which is a third longer; signals and pings go in between."""

LISTED = 200
"""How many files one order announces."""

ANSWER_SECONDS = 120.0
"""How long a host that is there may say nothing about files."""

FIRST = "first"
"""What the copying is called that is part of a start; other names are used once, also by other kernels."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostCopy:
    """How one host's copy was made the same: numbers of files."""

    sent: int
    unchanged: int
    removed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Copied:
    """What was done by one copying.

    Attributes:
      hosts: By host name; empty where there is this machine alone, which needs no copy.
      files: How many there are.
      seconds: How long it took; None for the one that is part of a start.
      left_out: What was not copied, with the reason.
      changed: Files that are other than before on some host, by name in the copy.
      lost: Hosts that can no longer be reached.
      old: Process ids by the modules that they had imported before they changed.
    """

    hosts: Mapping[str, HostCopy]
    files: int
    seconds: float | None
    left_out: tuple[str, ...] = ()
    changed: frozenset[str] = frozenset()
    lost: tuple[str, ...] = ()
    old: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def any_news(self) -> bool:
        """Whether any process may see another file than before."""
        return bool(self.changed) or any(copy.sent for copy in self.hosts.values())

    def text(self) -> str:
        """A line for hosts that had the same done, then what a person must know."""
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
                f"already imported: {modules}; importlib.reload({next(iter(self.old))}) in a cell takes the new "
                "one, and so does autoreload"
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
      found: What `--sync` names.

    Raises:
      OptionError: They are too much.
    """

    def __init__(self, found: Sequence[Source]) -> None:
        self.sources = tuple(found)
        self._tree = walk(self.sources)
        self._hashes = Hashes()
        self._known: dict[str, str] = {}
        self._sendings: list[Sending] = []

    @property
    def here(self) -> list[str]:
        """What goes on the path of processes on this machine."""
        return list(dict.fromkeys(str(source.base) for source in self.sources))

    @property
    def there(self) -> list[str]:
        """What goes on the path of processes elsewhere, in the folder of the copy."""
        return [source.name for source in self.sources]

    def folder_there(self, cwd: Path) -> str | None:
        """The copy of the working folder, where it is copied, else of the first folder; None without any."""
        copies = [where for source in self.sources if (where := source.there(cwd)) is not None]
        folders = [source.name for source in self.sources]
        return next(iter([*copies, *folders]), None)

    def path(self, name: str, folder: str | None) -> str:
        """Where a file lies: in the session's `folder` on another machine, or here (None)."""
        file = self._tree.files.get(name)
        if folder is None and file is not None:
            return str(file.path)
        return f"{folder}/{FOLDER}/{name}"

    def begin(self, others: Mapping[str, Parent]) -> None:
        """Sends everything to hosts that have nothing yet; see `written` and `first`."""
        self._start(others, ask=False)

    def written(self) -> bool:
        """Whether what was begun is on its way, so that later orders come after it."""
        return all(sending.written or not sending.running for sending in self._sendings)

    def first(self) -> Copied:
        """What the copying of the start has done; the hosts that have come up have done it."""
        return self._done(None)

    def working_folders(self, others: Mapping[str, Parent]) -> str | None:
        """A sentence where the working folder is the copy; None where every host has its own."""
        hosts = [
            name if task is None else facts.host
            for name, parent in others.items()
            for task, facts in parent.facts.items()
            if Path(facts.cwd).is_relative_to(Path(facts.folder).resolve() / FOLDER)
        ]
        if not hosts:
            return None
        return (
            f"{', '.join(dict.fromkeys(hosts))}   the working folder is the copy of {self._of_what()}; what cells "
            "write there goes with the session"
        )

    def _of_what(self) -> str:
        cwd = Path.cwd()
        within = any(source.there(cwd) is not None for source in self.sources)
        return str(cwd if within else self.sources[0].path)

    def sync(self, others: Mapping[str, Parent]) -> Copied:
        """Makes the copies the same again; only what has changed is sent.

        Raises:
          OptionError: It has become too much; nothing was sent.
          SyncError: Some hosts could not take it, and have what they had; the others have all that is new.
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
            raise
        changed = {name for name, digest in self._known.items() if before.get(name) != digest}
        changed |= {name for sending in self._sendings for name in sending.needed}
        failed = {s.parent.reach.name: s.error for s in self._sendings if s.error is not None}
        if failed:
            raise SyncError(_failed(failed, [s for s in self._sendings if s.error is None]))
        return replace(
            self._done(time.monotonic() - began),
            changed=frozenset(changed.intersection(before)),
            lost=tuple(name for name, parent in others.items() if parent.poll() is not None),
        )

    def stop(self) -> None:
        """Has what is being sent end after the order it is at; does not wait."""
        for sending in self._sendings:
            sending.stop()

    def _start(self, others: Mapping[str, Parent], *, ask: bool) -> None:
        while any(sending.running for sending in self._sendings):
            time.sleep(
                POLL_SECONDS
            )  # one that was interrupted ends with its order, or with its host
        digests = {name: self._hashes.of(file) for name, file in self._tree.files.items()}
        listed = [(self._tree.files[n], digest) for n, digest in digests.items() if digest]
        self._known = {file.name: digest for file, digest in listed}
        name = uuid.uuid4().hex if ask else FIRST
        living = [parent for parent in others.values() if parent.poll() is None]
        self._sendings = [Sending(parent, name, listed, ask=ask) for parent in living]

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
    well = ", ".join(sending.parent.reach.name for sending in others)
    rest = f" {well} {'has' if len(others) == 1 else 'have'} the new ones." if well else ""
    return (
        f"Files could not be brought to {text}. What was there before is as it was.{rest} When that is mended, "
        "repeat %dist_sync."
    )


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
        self, parent: Parent, name: str, listed: Sequence[tuple[File, str]], *, ask: bool
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
            self._host(event): HostCopy(
                sent=event["done"]["sent"],
                unchanged=event["done"]["files"] - event["done"]["sent"],
                removed=event["done"]["removed"],
            )
            for event in self._heard("done")
        }

    def _host(self, event: Mapping[str, Any]) -> str:
        if "task" not in event:
            return self.parent.reach.name
        facts = self.parent.facts.get(event["task"])
        return facts.host if facts is not None else f"task {event['task']}"

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
            host = f" (host {self._host(event)})" if "task" in event else ""
            raise _Stopped(f"{event['error']}{host}")
        if self._stop.is_set():
            raise _Stopped("interrupted")
        if self.parent.ended_at is not None:
            raise _Stopped("the connection has ended")


def first_failure(parent: Parent) -> str | None:
    """Why a host could not take the files at the start; None where it could, or has not said yet."""
    for event in list(parent.copying):
        if event["id"] == FIRST and "error" in event:
            return str(event["error"])
    return None
