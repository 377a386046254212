"""The turn of a kernel: one kernel at a time sends work that may compute, so all processes get it in one order.

Without turns, cells of two kernels could reach process 0 as A, B and process 1 as B, A; their collectives would
pair and give wrong numbers. So a kernel holds a lock in the session's private folder from before the first message
of a cell until the cell has ended on all its processes. The operating system frees the lock when the kernel dies,
in whatever way.

A waiting kernel first takes a second lock, the door, so that a kernel which sends in a loop cannot overtake it.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from nbdist.contract.wire import from_json, to_json
from nbdist.errors import SessionError, TurnError, WireError
from nbdist.interrupts import put_off, raise_put_off
from nbdist.notation import seconds_text
from nbdist.spelling import command

FIRST_PAUSE_SECONDS = 0.0005
LONGEST_PAUSE_SECONDS = 0.02
"""Seconds between two attempts to get the turn: short at first, longer while another kernel computes for long."""

SAY_SECONDS = 1.0
"""Seconds in line after which a text says behind what."""

MOST_BYTES = 4096

ProgramNumber = tuple[int, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnNotes:
    """The notes of a kernel for the next one, in the locked file.

    Attributes:
      by: The kernel that had the turn; empty before the first turn.
      number: The highest number of what was sent; see `Turn.next_number`.
      held: Whether the kernel has the turn; if the lock is free nevertheless, the kernel has died in its turn.
      cell: The number of the cell that it runs; None for other work.
      in_step: The last program, as generation and serial, after which all processes were in step; None: unknown.
      settled: Whether they were in step when the turn ended.
    """

    by: str = ""
    number: int = 0
    held: bool = False
    cell: int | None = None
    in_step: ProgramNumber | None = None
    settled: bool = True


class Turn:
    """This kernel's turns among all kernels of a session, and the order of its own threads.

    Attributes:
      on_change: Called in a turn, before anything is sent, if another kernel had the last turn. Gets that kernel's
        notes, and returns what it has done. If it raises, it is called again in the next turn.
      known: Returns what this kernel knows of the processes: the program after which they were in step, and
        whether they still are.

    Args:
      path: The locked file, the same in all kernels of the session.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._me = uuid.uuid4().hex
        self._files: tuple[int, int] | None = None
        self._changed = threading.Condition(threading.RLock())
        self._line: deque[object] = deque()
        self._owner: int | None = None
        self._shares: list[int | None] = []
        self._number = 0
        self._before: TurnNotes | None = None
        self._closed = False
        self.on_change: Callable[[TurnNotes], str | None] = lambda before: None
        self.known: Callable[[], tuple[ProgramNumber | None, bool]] = lambda: (None, True)

    @contextlib.contextmanager
    def taken(
        self,
        *,
        cell: int | None = None,
        timeout_s: float | None = None,
        say: Callable[[str], object] = print,
    ) -> Iterator[str | None]:
        """Hold the turn while the block runs: no other kernel or thread sends or computes anything.

        A nested block on the same thread is part of the outer one.

        Args:
          cell: The number of the cell that is sent, which other kernels show while they wait.
          timeout_s: The longest wait in seconds; None: without a limit.
          say: Called with a line if the wait is long.

        Yields:
          What `on_change` has done, as text for a person; None: nothing.

        Raises:
          TurnError: The wait took too long; nothing was sent.
          SessionError: The session has ended.
          KeyboardInterrupt: A person no longer waits; nothing was sent.
        """
        if self._owner == threading.get_ident():
            yield None
            return
        until = None if timeout_s is None else time.monotonic() + timeout_s
        waiting = _Waiting(self, until, timeout_s, say)
        entered = shared = False
        try:
            with put_off():
                self._enter(waiting)
                entered = True
                self._share(cell, waiting)
                shared = True
            done = None
            if self._before is not None:
                done = self.on_change(self._before)
                self._before = None
            yield done
        finally:
            with put_off():
                if shared:
                    self._unshare(cell)
                if entered:
                    self._leave()

    def kept(self, cell: int) -> Callable[[], None]:
        """Make the present turn last until a cell in the background has ended.

        Returns:
          A function to call at the cell's end, from any thread; a second call does nothing.
        """
        with self._changed:
            self._shares.append(cell)
        left = threading.Lock()

        def end() -> None:
            if left.acquire(blocking=False):
                self._unshare(cell)

        return end

    def next_number(self) -> int:
        """Return a number for a proof or a sending that is higher than all before, in whichever kernel."""
        with self._changed:
            self._number = max(time.time_ns(), self._number + 1)
            return self._number

    def ahead(self) -> str | None:
        """Return what has the turn, such as `cell 7 of another kernel`; None if this kernel has it, or none."""
        if self._closed or self._shares:
            return None
        noted = self._read()
        if not noted.held or noted.by == self._me:
            return None
        return "another kernel" if noted.cell is None else f"cell {noted.cell} of another kernel"

    def close(self) -> None:
        """End the turn of this kernel, and close the files."""
        with self._changed:
            self._closed = True
            if self._shares:
                self._shares = []
                # From now on this kernel does not follow what still runs.
                self._note_end(settled=False)
            files, self._files = self._files, None
        for file in files or ():
            os.close(file)

    # -- the threads of this kernel ------------------------------------------------------------

    def _enter(self, waiting: _Waiting) -> None:
        ticket = object()
        with self._changed:
            self._line.append(ticket)
        try:
            while True:
                with self._changed:
                    if self._owner is None and self._line[0] is ticket:
                        self._owner = threading.get_ident()
                        return
                    self._changed.wait(LONGEST_PAUSE_SECONDS)
                waiting.look("another thread")
        finally:
            with self._changed:
                self._line.remove(ticket)

    def _leave(self) -> None:
        with self._changed:
            self._owner = None
            self._changed.notify_all()

    # -- the kernels of the session ------------------------------------------------------------

    def _share(self, cell: int | None, waiting: _Waiting) -> None:
        door, turn = self._opened()
        waiting.until(lambda: _locked(door))
        try:
            waiting.until(lambda: self._got(turn, cell))
        finally:
            fcntl.flock(door, fcntl.LOCK_UN)

    def _got(self, turn: int, cell: int | None) -> bool:
        with self._changed:
            if self._closed:
                raise _ended()
            if not self._shares and not _locked(turn):
                return False
            if not self._shares:
                before = self._read()
                if before.by not in ("", self._me) and self._before is None:
                    self._before = before
                self._number = max(self._number, before.number)
            self._shares.append(cell)
            self._note(TurnNotes(by=self._me, number=self._number, held=True, cell=cell))
            return True

    def _unshare(self, cell: int | None) -> None:
        with self._changed:
            if cell not in self._shares:
                return  # closed in the meantime
            self._shares.remove(cell)
            if self._files is None:
                return
            if self._shares:
                last = self._shares[-1]
                self._note(TurnNotes(by=self._me, number=self._number, held=True, cell=last))
                return
            self._note_end(settled=self._before is None)

    def _note_end(self, *, settled: bool) -> None:
        if self._files is None:
            return
        in_step, known = self.known()
        noted = TurnNotes(
            by=self._me, number=self._number, in_step=in_step, settled=settled and known
        )
        self._note(noted)
        fcntl.flock(self._files[1], fcntl.LOCK_UN)

    def _opened(self) -> tuple[int, int]:
        """Return the files of the door and of the turn.

        Raises:
          SessionError: They cannot be opened, so that no order can be kept.
        """
        with self._changed:
            if self._closed:
                raise _ended()
            if self._files is None:
                names = (self._path.with_suffix(".door"), self._path)
                flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
                try:
                    door, turn = (os.open(name, flags, 0o600) for name in names)
                except OSError as error:
                    raise SessionError(
                        f"Kernels of one session take turns by a file, which cannot be opened: {error}. Nothing "
                        "was sent."
                    ) from error
                self._files = door, turn
            return self._files

    def _note(self, noted: TurnNotes) -> None:
        assert self._files is not None
        text = to_json(noted).encode() + b"\n"
        with contextlib.suppress(OSError):  # a full disk
            os.pwrite(self._files[1], text, 0)

    def _read(self) -> TurnNotes:
        try:
            text = os.pread(self._opened()[1], MOST_BYTES, 0).split(b"\n", 1)[0]
            return from_json(TurnNotes, text) if text else TurnNotes()
        except (OSError, WireError):
            return replace(TurnNotes(), by="unknown", settled=False)


class _Waiting:
    """A wait for the turn, with a limit; it can be interrupted, and shows what has the turn."""

    def __init__(
        self,
        turn: Turn,
        deadline: float | None,
        timeout_s: float | None,
        say: Callable[[str], object],
    ) -> None:
        self._turn = turn
        self._deadline = deadline
        self._timeout_s = timeout_s
        self._say = say
        self._began = time.monotonic()
        self._said = False

    def until(self, got: Callable[[], bool]) -> None:
        """Wait until `got` returns true."""
        pause = FIRST_PAUSE_SECONDS
        while not got():
            self.look("another kernel")
            time.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_SECONDS)

    def look(self, behind: str) -> None:
        """Show what has the turn, if that is due; raise if the wait was interrupted or is over."""
        raise_put_off()
        now = time.monotonic()
        if not self._said and now - self._began >= SAY_SECONDS:
            self._said = True
            self._say(f"queued behind {self._turn.ahead() or behind}")
        if self._deadline is not None and now > self._deadline:
            assert self._timeout_s is not None
            raise TurnError(
                f"not sent: {self._turn.ahead() or behind} did not end within {seconds_text(self._timeout_s)}. "
                f"Nothing was changed. {command('interrupt')} interrupts what runs."
            )


def _ended() -> SessionError:
    return SessionError(f"The session has ended. {command('start')} starts one.")


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
