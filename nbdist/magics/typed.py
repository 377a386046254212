"""Cells typed in a notebook: where each runs, and completion (Tab) and help (Shift-Tab) on the processes' names.

`Mode` rewrites the first line of a cell before IPython reads it, so that the cell runs here, on the processes, or
on both (`%%dist --here`). In cells that run on the processes, and after magics, an idle process answers
`Completion`. Where a name exists on one side only, in the notebook or on the processes, a hint says what to type.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from IPython.core.completer import (
    CompletionContext,
    SimpleCompletion,
    SimpleMatcherResult,
    context_matcher,
)
from IPython.utils.tokenutil import token_at_cursor

from nbdist.contract.calls.engine import Complete, Inspect
from nbdist.errors import NbdistError, NotebookError, OptionError, ProcessError, error_text
from nbdist.magics.options import MAGICS
from nbdist.session.session import Session
from nbdist.spelling import Door, command, through
from nbdist.view.tree import steps

_JOINED = re.compile(r"^%%rank(\[.*)$")
_OWN = re.compile(r"^\s*%(dist|dist_\w+|sync|load_ext|unload_ext|reload_ext)\b")

_HELP = re.compile(r"^%%(\w+)[ \t].*(?<!\S)(?:--help|-h)\s*$")

LOCAL = "%%local"
"""The first line of a cell that runs in the notebook whatever the mode is."""

CELL_MAGIC = "dist_plain"
"""The cell magic that plain cells are turned into while the mode is on."""


class Mode:
    """The mode of a notebook, as an input transformer of IPython; `enabled` is what `%dist_mode` sets."""

    def __init__(self) -> None:
        self.enabled = False

    def transform(self, lines: list[str]) -> list[str]:
        """Return the lines of a cell, with line ends, in the form that IPython then reads."""
        first = next((i for i, line in enumerate(lines) if line.strip()), None)
        if first is None:
            return lines
        asks = _HELP.match(lines[first])
        if asks and asks[1] in MAGICS:
            # IPython refuses a cell magic without a body.
            return [*lines, "\n"]
        if lines[first].split()[0] == LOCAL:
            # A comment replaces it, so that line numbers stay the same.
            return [*lines[:first], f"# {lines[first]}", *lines[first + 1 :]]
        joined = _JOINED.match(lines[first])
        if joined:
            ending = "\n" if lines[first].endswith("\n") else ""
            return [
                *lines[:first],
                f"%%rank {joined.group(1).rstrip()}{ending}",
                *lines[first + 1 :],
            ]
        if self.enabled and not self._stays(lines):
            return [f"%%{CELL_MAGIC}\n", *lines]
        return lines

    # IPython leaves out such transformers when it looks whether a cell typed in a terminal is complete: a line of
    # Python is complete, but below the cell magic that is put above it here, IPython would wait for more.
    vars()["transform"].has_side_effects = True

    @staticmethod
    def _stays(lines: list[str]) -> bool:
        """Return whether a cell stays unchanged: it has a cell magic, or only line magics that run here."""
        written = [line for line in lines if line.strip() and not line.lstrip().startswith("#")]
        return not written or written[0].startswith("%%") or all(map(_OWN.match, written))


LABEL = "in the notebook"
"""The label above the notebook's own lines, as `processes 0–3` is above those of processes."""


def refuse_here(shell: Any, code: str, *, wait: bool) -> None:
    """Refuse, before anything is sent, a cell that cannot run in the notebook afterwards.

    Raises:
      OptionError: The cell would not be waited for, or has an await outside of a function.
    """
    if not wait:
        raise OptionError(
            "--here runs the cell in the notebook once the processes have run it, and --no-wait does not wait for "
            "that. Leave one of them out; nothing was run."
        )
    if shell.should_run_async(code, transformed_cell=code):
        raise OptionError(
            "--here cannot run a cell with await outside of a function in the notebook. Run it there in a plain "
            "cell; nothing was run."
        )


def run_here(shell: Any, code: str, *, processes: Callable[[], object]) -> None:
    """Run a cell on the processes, then in the notebook's namespace.

    Args:
      shell: The notebook's IPython shell.
      code: The cell below its first line.
      processes: Runs the code on the processes.

    Raises:
      NotebookError: The cell failed in the notebook; IPython has shown the traceback.
      NbdistError: The cell failed on the processes, and was not run in the notebook.
    """
    try:
        processes()
    except NbdistError:
        print(f"{LABEL}   not run, since the cell has failed on the processes")
        raise
    print(LABEL, flush=True)
    # Replacing the magic's line keeps the line numbers, and makes the cell run here in any mode.
    with through(Door.PYTHON):
        result = shell.run_cell(f"{LOCAL}\n{code}", store_history=False)
    error = result.error_in_exec if result.error_before_exec is None else result.error_before_exec
    if error is not None:
        raise NotebookError(
            f"the cell has run on the processes, and failed in the notebook: {error_text(error)}"
        ) from None


_MAGIC = re.compile(r"\s*(%%?)(\w+)[ \t](.*)\Z")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletionText:
    """The text to complete at the cursor.

    Any of `matches` may replace `fragment`, the text that is there now. `code` is for a process to complete; None
    if no process is to be asked.
    """

    fragment: str
    matches: tuple[str, ...] = ()
    code: str | None = None


def wanted(before: str) -> CompletionText | None:
    """Return what may come next on a line of one of nbdist's magics.

    Args:
      before: The line up to the cursor.

    Returns:
      The text to complete; None if the line is not one of a magic of nbdist.
    """
    found = _MAGIC.match(before)
    if not found or found[2] not in MAGICS:
        return None
    sign, name, rest = found.groups()
    magic, parser = MAGICS[name], MAGICS[name].parser()
    *words, word = ["", *re.split(r"\s+", rest)]
    if choices := parser.choices(words[-1]):
        return CompletionText(fragment=word, matches=_beginning(choices, word))
    whole = parser.split_options(rest)[1] if magic.asks_processes and name != "dist_pull" else ""
    # After code, a `-` is a minus.
    if word.startswith("-") and (not whole or whole.startswith("-")):
        return CompletionText(fragment=word, matches=_beginning(parser.flags, word))
    if sign == "%" and magic.asks_processes and not parser.takes_value(words[-1]):
        return CompletionText(fragment=word, code=word if name == "dist_pull" else whole)
    return CompletionText(fragment=word)


def _beginning(known: list[str], word: str) -> tuple[str, ...]:
    return tuple(one for one in known if one.startswith(word))


ANSWER_SECONDS = 0.25
"""Seconds in which a process must answer: a completion that takes longer than 0.3 s is of no use."""

NAME_SECONDS = 2.0
"""Seconds in which an idle process must say whether it has a name."""

_PATH = re.compile(r"[\w.\[\]'\"]*$")
_DISTRIBUTED = re.compile(r"^\s*%%(dist|distributed|rank)\b[^\n]*\n")


def _asked(session: Session, code: str, cursor: int) -> SimpleMatcherResult | None:
    answer = session.ask_idle(Complete(code=code, cursor=cursor), timeout_s=ANSWER_SECONDS)
    if answer is not None:
        return _found(answer.matches, answer.text)
    # All processes are in a cell: use the last reports of their arrays.
    written = _PATH.search(code[:cursor])
    text = written.group() if written else ""
    matches = reported((array.path for array in session.snapshot().arrays), text)
    return _found(matches, text) if matches else None


def reported(paths: Iterable[str], text: str) -> list[str]:
    """Return the paths that begin with `text`, each cut after one more step, in their order."""
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
    """Return where the code for the processes begins in a cell's text; None if the cell runs in the notebook."""
    found = _DISTRIBUTED.match(text)
    if found:
        return found.end()
    return 0 if mode and not text.lstrip().startswith("%") else None


class Completion:
    """Completion and inspection of one shell, answered by the processes, and hints below cells.

    Args:
      shell: The notebook's IPython shell.
      session: Returns the active session, or None.
      mode: Returns whether plain cells run on the processes.
    """

    def __init__(
        self, shell: Any, session: Callable[[], Session | None], mode: Callable[[], bool]
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
        """Register a matcher, look at each cell that ends, and wrap the kernel's `do_inspect`."""
        self._shell.Completer.custom_matchers.append(self._matcher)
        self._shell.events.register("post_run_cell", self.look)
        kernel = getattr(self._shell, "kernel", None)
        if kernel is not None:
            self._inspect = kernel.do_inspect
            kernel.do_inspect = self.inspect

    def remove(self) -> None:
        """Undo `install`."""
        self._shell.events.unregister("post_run_cell", self.look)
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

    def _argument(self, asked: CompletionText, session: Session | None) -> SimpleMatcherResult:
        """Complete after a magic of nbdist; IPython completes anything that neither magic nor process knows."""
        if session is not None and asked.code is not None:
            return _asked(session, asked.code, len(asked.code)) or {"completions": []}
        return _found(asked.matches, asked.fragment) if asked.matches else {"completions": []}

    def inspect(
        self, code: str, cursor_pos: int, detail_level: int = 0, omit_sections: Any = ()
    ) -> Any:
        """Answer like the kernel's `do_inspect`; for cells that run on the processes, ask a process."""
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

    def look(self, result: Any) -> None:
        """Examine a cell that has ended, as IPython's hook; ask a process only if a name was missing."""
        error = result.error_in_exec
        session = self._session()
        if session is None or not isinstance(error, NameError) or not error.name:
            return
        name = error.name
        asked = Complete(code=name, cursor=len(name))
        answer = session.ask_idle(asked, timeout_s=NAME_SECONDS)
        if answer is not None and name in answer.matches:
            with through(Door.MAGIC):
                remedy = f"{command('pull')} {name} brings it."
            print(f"{name} exists on the processes, not in the notebook. {remedy}")


def _with_values(session: Session, symbol: str, data: Mapping[str, str]) -> Mapping[str, str]:
    """Add the values of the array of that name below the help on the name."""
    try:
        text = session.values(symbol, timeout_s=ANSWER_SECONDS)["text"]
    except NbdistError:
        return data
    return {"text/plain": f"{text}\n\n{data.get('text/plain', '')}"}


_UNKNOWN = re.compile(r"^NameError: name '(\w+)' is not defined")


def say_here(error: ProcessError, namespace: Mapping[str, Any]) -> None:
    """Add advice to the error of a cell on the processes that used a name of the notebook.

    Args:
      error: The error of a cell on the processes.
      namespace: The namespace of the notebook.
    """
    for outcome in error.failures:
        found = _UNKNOWN.match(str(getattr(outcome, "error", None) or ""))
        if found is None or found[1] not in namespace:
            continue
        name = found[1]
        remedy = (
            f"Import it in a {command('cell')}, too."
            if isinstance(namespace[name], ModuleType)
            else f"{command('push')} {name} sends it."
        )
        error.advise(f"{name} exists in the notebook, not on the processes. {remedy}")
        return
