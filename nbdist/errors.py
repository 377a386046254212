"""The exception tree: every error of nbdist, each a subclass of `NbdistError`; and any error as text.

Texts say what happened with the value, what was allowed, where (process and host), and what to do.
"""

from __future__ import annotations

import re
import sys

_ANSI = re.compile(r"\x1b\[[0-9;]*m")


def _in_color() -> bool:
    """Return whether IPython shows colors here; engines send colored tracebacks."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return str(getattr(shell, "colors", "")).lower() != "nocolor"


class NbdistError(Exception):
    """Base of all errors nbdist raises on purpose."""


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
      message: What happened, in one sentence.
      failures: One entry per failed process, the first cause first.
      shown: The engine's own traceback and a line for each other process, as IPython shows it.
    """

    def __init__(self, message: str, failures: tuple[object, ...] = (), shown: str = "") -> None:
        super().__init__(message)
        self.failures = failures
        self.shown = shown
        if shown:
            # Python's own tracebacks, as in a script, print notes below the message.
            self.add_note(_ANSI.sub("", shown))

    def _render_traceback_(self) -> list[str]:
        """Show this in IPython in place of the notebook's own frames, which explain nothing."""
        shown = self.shown or f"{type(self).__name__}: {self}"
        return (shown if _in_color() else _ANSI.sub("", shown)).splitlines()


class CollectiveError(ProcessError):
    """Processes have waited for others that did not take part in a common computation."""


class NotebookError(NbdistError, RuntimeError):
    """A cell of `%%dist --here` has run on the processes, and failed in the notebook."""


class CellTimeout(NbdistError, TimeoutError):
    """A cell did not finish within its `timeout_s` (`--timeout`)."""


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
