"""Threads that read messages go on when one of them cannot be handled."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType

MOST_KINDS = 20
"""The number of kinds of failure of which the first is reported; further kinds are only logged."""

SHOWN_CHARACTERS = 200
"""Of the text of a failure."""


class MessageGuard:
    """A context in which one message is handled; used again for each.

    An exception in it is logged and goes no further, so that the next message is read. The first of its kind (its
    class, and the line that raised it) is logged as an error and reported in one sentence; others are logged at
    level DEBUG. What is no `Exception`, such as `KeyboardInterrupt`, passes.

    Args:
      what: What was being handled, such as `"a report of a process"`.
      logger: Of the module that reads.
      report: Called with the sentence, on the thread that failed; it may raise.
    """

    def __init__(
        self,
        what: str,
        logger: logging.Logger,
        report: Callable[[str], None] | None = None,
    ) -> None:
        self._what = what
        self._logger = logger
        self._report = report
        self._lock = threading.Lock()
        self._kinds: set[tuple[type, str, int]] = set()
        self.failures = 0

    def __enter__(self) -> MessageGuard:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        first = self._is_first(error, trace)
        level = logging.ERROR if first else logging.DEBUG
        self._logger.log(level, "%s could not be handled", self._what, exc_info=error)
        if first and self._report is not None:
            try:
                self._report(self._sentence(error))
            except Exception:
                self._logger.exception("a failure could not be reported")
        return True

    def _is_first(self, error: Exception, trace: TracebackType | None) -> bool:
        place = ("", 0)
        while trace is not None:
            place = (trace.tb_frame.f_code.co_filename, trace.tb_lineno)
            trace = trace.tb_next
        kind = (type(error), *place)
        with self._lock:
            self.failures += 1
            if kind in self._kinds or len(self._kinds) >= MOST_KINDS:
                return False
            self._kinds.add(kind)
        return True

    def _sentence(self, error: Exception) -> str:
        text = " ".join(str(error).split())
        if len(text) > SHOWN_CHARACTERS:
            text = f"{text[:SHOWN_CHARACTERS]}…"
        return (
            f"{self._what} could not be handled and was skipped ({type(error).__name__}: {text}); later ones "
            f"are still read. The log of {self._logger.name} has the traceback."
        )
