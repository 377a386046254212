"""Tab and Shift-Tab in cells that run on the processes and after magics, answered by an idle process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.utils.tokenutil import token_at_cursor

from nbdist.contract.calls.call import Call
from nbdist.contract.calls.engine import Complete, Inspect
from nbdist.contract.snapshot import Snapshot
from nbdist.errors import NbdistError
from nbdist.notebook.arguments import Wanted, wanted
from nbdist.view.branches import steps

A = TypeVar("A")

ANSWER_SECONDS = 0.25
"""A completion that takes longer than 0.3 s is of no use."""

_PATH = re.compile(r"[\w.\[\]'\"]*$")
_DISTRIBUTED = re.compile(r"^\s*%%(dist|distributed|rank)\b[^\n]*\n")


class Asks(Protocol):
    """The part of a `Session` that completion needs."""

    def ask_idle(self, call: Call[A], *, timeout_s: float) -> A | None:
        """Ask the lowest idle process."""

    def snapshot(self) -> Snapshot:
        """Return what is known of the session."""

    def values(self, path: str, *, timeout_s: float) -> dict[str, Any]:
        """Return a summary of an array's values, as `text`."""


def _asked(session: Asks, code: str, cursor: int) -> SimpleMatcherResult | None:
    answer = session.ask_idle(Complete(code=code, cursor=cursor), timeout_s=ANSWER_SECONDS)
    if answer is not None:
        return _found(answer.matches, answer.text)
    # All processes are in a cell: the last reports of their arrays are still known.
    written = _PATH.search(code[:cursor])
    text = written.group() if written else ""
    matches = reported((array.path for array in session.snapshot().arrays), text)
    return _found(matches, text) if matches else None


def reported(paths: Iterable[str], text: str) -> list[str]:
    """Return how a path that begins with `text` can go on, one step further, in the order of the paths."""
    known: dict[str, None] = {}
    for path in paths:
        if not path.startswith(text) or path == text:
            continue
        done = ""
        for step in steps(path):
            done += step
            if len(done) > len(text):
                known[done] = None
                break
    return list(known)


def _found(matches: Iterable[str], fragment: str) -> SimpleMatcherResult:
    return {
        "completions": [SimpleCompletion(text=match) for match in matches],
        "matched_fragment": fragment,
        "suppress": True,
    }


def body(text: str, *, mode: bool) -> int | None:
    """Return where the code for the processes begins in a cell's text; None: it runs in the notebook."""
    found = _DISTRIBUTED.match(text)
    if found:
        return found.end()
    return 0 if mode and not text.lstrip().startswith("%") else None


class Completion:
    """Hooks completion and inspection of one shell.

    Args:
      shell: The notebook's IPython shell.
      session: Returns the active session, or None.
      mode: Returns whether plain cells run on the processes.
    """

    def __init__(
        self, shell: Any, session: Callable[[], Asks | None], mode: Callable[[], bool]
    ) -> None:
        self._shell = shell
        self._session = session
        self._mode = mode
        self._inspect: Any = None

        @context_matcher()
        def nbdist_matcher(context: CompletionContext) -> SimpleMatcherResult:
            return self.match(context)

        self._matcher = nbdist_matcher

    def install(self) -> None:
        """Registers a matcher and wraps the kernel's `do_inspect`."""
        self._shell.Completer.custom_matchers.append(self._matcher)
        kernel = getattr(self._shell, "kernel", None)
        if kernel is not None:
            self._inspect = kernel.do_inspect
            kernel.do_inspect = self.inspect

    def remove(self) -> None:
        """Take both back."""
        if self._matcher in self._shell.Completer.custom_matchers:
            self._shell.Completer.custom_matchers.remove(self._matcher)
        kernel = getattr(self._shell, "kernel", None)
        if kernel is not None and self._inspect is not None:
            kernel.do_inspect = self._inspect

    def match(self, context: CompletionContext) -> SimpleMatcherResult:
        """Return completions from a process; none for cells that run in the notebook."""
        nothing: SimpleMatcherResult = {"completions": []}
        session = self._session()
        asked = wanted(context.line_with_cursor[: context.cursor_position])
        if asked is not None:
            return self._argument(asked, session)
        start = body(context.full_text, mode=self._mode())
        if session is None or start is None:
            return nothing
        lines = context.full_text.splitlines(keepends=True)
        cursor = sum(map(len, lines[: context.cursor_line])) + context.cursor_position
        return _asked(session, context.full_text[start:], cursor - start) or nothing

    def _argument(self, asked: Wanted, session: Asks | None) -> SimpleMatcherResult:
        """Complete after a magic of nbdist; IPython completes what neither the magic nor a process knows."""
        if session is not None and asked.code is not None:
            return _asked(session, asked.code, len(asked.code)) or {"completions": []}
        return _found(asked.matches, asked.fragment) if asked.matches else {"completions": []}

    def inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> Any:
        """Answer as the kernel's `do_inspect`, but ask a process about cells that run there."""
        session = self._session()
        start = body(code, mode=self._mode())
        if session is not None and start is not None and cursor_pos >= start:
            symbol = token_at_cursor(code[start:], cursor_pos - start)
            answer = session.ask_idle(
                Inspect(symbol=symbol, detail=detail_level), timeout_s=ANSWER_SECONDS
            )
            if answer is not None:
                data = _with_values(session, symbol, answer.data)
                return {"status": "ok", "data": data, "metadata": {}, "found": True}
        return self._inspect(code, cursor_pos, detail_level, omit_sections)


def _with_values(session: Asks, symbol: str, data: Mapping[str, str]) -> Mapping[str, str]:
    """Add the values of the array of that name below the help on the name."""
    try:
        text = session.values(symbol, timeout_s=ANSWER_SECONDS)["text"]
    except NbdistError:
        return data
    return {"text/plain": f"{text}\n\n{data.get('text/plain', '')}"}
