"""The participant: which session is meant, what is allowed there, and how long a call may last."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

from nbdist.errors import NbdistError, OptionError, SessionError
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import Record, one_line
from nbdist.spelling import command
from nbdist.starting import attach_session

if TYPE_CHECKING:
    from nbdist.session.session import Session
    from nbdist.tools.cells import AskedCell, AskedCells

Say = Callable[[str], object]

Need = Literal["read", "run", "recover"]
"""Needs of a tool: to look at reports, to run code or occupy the processes, to repair the session."""

EVERYTHING: frozenset[Need] = frozenset(get_args(Need))


def allowed_by(words: Iterable[str]) -> frozenset[Need]:
    """Return what is allowed in addition to reading.

    Raises:
      OptionError: A word is no need.
    """
    found: set[Need] = {"read"}
    for word in words:
        need = next((need for need in EVERYTHING if need == word), None)
        if need is None:
            raise OptionError(
                f"--allow {word}: what can be allowed is run and recover, as run,recover."
            )
        found.add(need)
    return frozenset(found)


@dataclass(frozen=True, slots=True)
class Joined:
    """A session that was joined, the folder of its present processes, and the cells asked for there."""

    session: Session
    folder: str
    cells: AskedCells


class Participant:
    """One program that takes part in sessions of its user on this machine, as another kernel does.

    Args:
      session: The id, or its beginning, of the only session that may be joined; empty: any.
      allowed: What the tools may do.
      longest_s: The longest time in seconds that a call waits for a cell; None: to its end.
      say: Called with what a cell is queued behind.
    """

    def __init__(
        self,
        *,
        session: str = "",
        allowed: frozenset[Need] = EVERYTHING,
        longest_s: float | None = None,
        say: Say = lambda text: None,
    ) -> None:
        self._only = session
        self.allowed = allowed
        self._longest_s = longest_s
        self._say = say
        self._joined: dict[str, Joined] = {}
        self._lock = threading.Lock()

    def joined(self, word: str) -> Joined:
        """Return the session that is meant, attached to its present processes.

        Args:
          word: An id, or its beginning; empty: the only session that runs.

        Raises:
          SessionError: There is no such session, or several and none is named; the text lists them.
          VersionError: Another version of nbdist has started it.
        """
        record = self._meant(word)
        with self._lock:
            before = self._joined.get(record.id)
            if before is not None:
                if before.folder == record.folder and before.session.alive:
                    return before
                with contextlib.suppress(NbdistError):
                    before.session.detach()
            from nbdist.tools.cells import AskedCells

            rules: dict[str, Any] = {} if self.allowed > {"read"} else {"recover": False}
            session = attach_session(record.id, **rules)  # who only looks repairs nothing
            self._joined[record.id] = Joined(session, record.folder, AskedCells(session))
            return self._joined[record.id]

    def wait(self, cell: AskedCell, *, ended: bool) -> None:
        """Wait for a cell, to its end or only until it has been sent, as long as one call may."""
        cell.wait(self._longest_s, self._say, ended=ended)

    def leave(self) -> None:
        """Leave all sessions; cells that have been sent go on."""
        with self._lock:
            for joined in self._joined.values():
                with contextlib.suppress(NbdistError):
                    joined.session.detach()
            self._joined.clear()

    def _meant(self, word: str) -> Record:
        if self._only:
            only = registry.find(self._only)
            if word and registry.find(word).id != only.id:
                raise OptionError(f"argument session is {word!r}; allowed here: {only.id}.")
            return only
        if word:
            return registry.find(word)
        here = [one for one in registry.sessions() if one.here]
        if not here:
            raise SessionError(
                f"No session of yours runs on this machine. {command('start')} starts one."
            )
        if len(here) > 1:
            running = "; ".join(map(one_line, here))
            raise SessionError(
                f"Several sessions run, and none is named: {running}. Name one by its id."
            )
        return here[0]
