"""`Notice`, what a person is told when something has gone wrong or was put right; and every error of nbdist.

One notice is the text of an error in a notebook or terminal, a section of the side panel, and JSON for programs.
Texts say what happened with the value, what was allowed, where (process and host), and what to do.

Source: imports nothing outside the standard library, since engines import it too.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from typing import Literal

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def without_colors(text: str) -> str:
    """Return a text without ANSI colors."""
    return _ANSI.sub("", text)


def _in_color() -> bool:
    """Return whether IPython shows colors here; engines send colored tracebacks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return str(getattr(shell, "colors", "")).lower() != "nocolor"


@dataclass(frozen=True, slots=True, kw_only=True)
class Notice:
    """Something a person should read now: at most three lines, the rest only for those who ask.

    Attributes:
      level: `bad` for what stops the work.
      title: What happened, where, and at which line.
      text: What it means for the variables, or for the session.
      do: What to type; empty if nothing is needed.
      details: Further lines.
      code: The kind, such as `raised`, `ended` or `repaired`, for programs that read it.
      lost: The paths of the arrays that were lost.
    """

    level: Literal["warn", "bad"]
    title: str
    text: str
    do: str = ""
    details: tuple[str, ...] = ()
    code: str = ""
    lost: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the lines without the details."""
        return "\n".join(line for line in (self.title, self.text, self.do) if line)


class NbdistError(Exception):
    """Base of all errors nbdist raises on purpose.

    Args:
      what: What happened, and what to do, as a notice or as text.
    """

    def __init__(self, what: Notice | str = "") -> None:
        super().__init__(str(what))
        self._notice = what if isinstance(what, Notice) else None

    @property
    def notice(self) -> Notice:
        """The error as data."""
        if self._notice is not None:
            return self._notice
        title, _, text = str(self).partition("\n")
        return Notice(level="bad", title=title, text=text, code=type(self).__name__)


class OptionError(NbdistError, ValueError):
    """An option or argument that cannot be used as given; nothing was started or changed."""


class TargetError(NbdistError, ValueError):
    """A target that names no process of the session."""


class SessionError(NbdistError, RuntimeError):
    """The session is not in a state that allows the request (none running, already running, ended)."""


class GoneError(SessionError):
    """A process ended before it answered."""


class NotRunError(SessionError):
    """A cell or call that a process did not run, since an earlier cell had failed there."""


class TurnError(SessionError):
    """Another kernel or thread computed longer than this one was to wait; nothing was sent."""


class StaleError(SessionError):
    """A value being moved is no longer held: the processes were repaired, or another kernel moved a value."""


class LaunchError(NbdistError, RuntimeError):
    """Processes could not be started or connected; whatever had been started is stopped again."""


class HostError(LaunchError):
    """A host could not be reached, or was lost, while processes were started; `host` is its name."""

    def __init__(self, message: str, *, host: str) -> None:
        super().__init__(message)
        self.host = host


class RecoveryError(NbdistError, RuntimeError):
    """Processes could not be brought in step again; what they hold is unchanged."""


class SyncError(NbdistError, RuntimeError):
    """Files could not be brought to a host; those that were there are unchanged."""


class VersionError(LaunchError):
    """An engine's nbdist version is not the kernel's; `host` is its host, if the start can do without it."""

    def __init__(self, message: str, *, host: str | None = None) -> None:
        super().__init__(message)
        self.host = host


class ProcessError(NbdistError, RuntimeError):
    """A cell failed on at least one process.

    Args:
      what: What happened, and what it means, as a notice; or what happened, in one sentence.
      failures: One entry per failed process, the first cause first.
      above: The process's own traceback, as IPython shows it.
      below: What happened, without what stands in that traceback already; default: the title of `what`.
    """

    def __init__(
        self,
        what: Notice | str,
        failures: tuple[object, ...] = (),
        above: str = "",
        below: str = "",
    ) -> None:
        told = Notice(level="bad", title=what, text="") if isinstance(what, str) else what
        super().__init__(told)
        self.args = (told.title,)
        self.failures = failures
        self.above = above
        self._below = below
        # Python's own tracebacks, as in a script, print notes below the message.
        for part in (without_colors(above), told.text, told.do):
            if part:
                self.add_note(part)

    def advise(self, do: str) -> None:
        """Add a sentence that says what to type."""
        self._notice = replace(self.notice, do=" ".join(filter(None, (self.notice.do, do))))
        self.add_note(do)

    @property
    def shown(self) -> str:
        """The traceback of the process, and the lines of the notice, with ANSI colors."""
        shown = replace(self.notice, title=self._below) if self._below else self.notice
        said = f"{type(self).__name__}: {shown}"
        return f"{self.above}\n{said}" if self.above else said

    def _render_traceback_(self) -> list[str]:
        """Show this in IPython in place of the notebook's own frames, which explain nothing."""
        return (self.shown if _in_color() else without_colors(self.shown)).splitlines()


class CollectiveError(ProcessError):
    """Processes have waited for others that did not take part in a common computation."""


class NotebookError(NbdistError, RuntimeError):
    """A cell of `%%dist --here` has run on the processes, and failed in the notebook."""


class CellTimeout(NbdistError, TimeoutError):
    """A cell did not finish within its `timeout_s` (`--timeout`)."""


class LostArrayError(NbdistError, RuntimeError):
    """An array was used that was lost: the text says when, why, and where it was made."""


class ArrayError(NbdistError, ValueError):
    """An expression that is no array that can be shown or moved (unknown, deleted, a tracer, too large)."""


class SpecError(NbdistError, ValueError):
    """A sharding that its mesh or shape does not allow."""


class InputError(NbdistError, ValueError):
    """Input that the distribution in force cannot take; refused before any process computes with it."""


class AgreementError(NbdistError, RuntimeError):
    """Processes were about to do different things where all must do the same; none has begun."""


class WireError(NbdistError, ValueError):
    """Data from another process or version that cannot be read."""


class ProgramError(NbdistError, ValueError):
    """A compiled program whose text, memory or costs cannot be read; no figure is guessed."""


class RehearsalError(NbdistError, RuntimeError):
    """A rehearsal that is not possible: there is no compiler, it does not fit JAX, or it rejects the program."""


class ValueNeeded(NbdistError, RuntimeError):
    """A rehearsal needs a value, and its arrays have none."""


def showable(error: BaseException) -> BaseException:
    """Return the error, or where its `__str__` raises, an error of the same name with a text that says so."""
    try:
        str(error)
    except Exception as why:  # noqa: BLE001 - whatever a user's class raises
        text = f"(its text cannot be shown: {type(why).__name__} in its __str__ or __repr__)"
        found: Exception = type(type(error).__name__, (Exception,), {})(text)
        return found.with_traceback(error.__traceback__)
    return error


def error_text(error: BaseException) -> str:
    """Return class and text of an error, such as `ValueError: no data`, also of one whose text raises."""
    return f"{type(error).__name__}: {showable(error)}"
