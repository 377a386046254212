"""IPython's shell and ipykernel's kernel on an engine: cells of the notebook, and gaps that are closed.

A cell travels as ipyparallel's own execute request; its label holds the data for which the request has no field
(see `nbdist.contract.cells`). `NotebookCells` hooks into the shell, `report_withdrawals` into the kernel, and
`name_cells` into Python's warnings.

`close_gaps` closes what IPython, ipykernel and tqdm leave open inside an ipyparallel engine, by one function each.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import importlib
import re
import sys
import warnings
from collections import deque
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any

from nbdist.contract.cells import CellLabel, label_from
from nbdist.engine.cell.debugger import end_tracing, keep_failure
from nbdist.engine.cell.running import CurrentCell
from nbdist.errors import NbdistError, SessionError, WireError, showable
from nbdist.ipython_private import allow_await, has_failed_to_show, show_any_error
from nbdist.spelling import Door, command, enter


class NotebookCells:
    """Hooks into one shell, through IPython's public events and input transformers.

    Args:
      shell: The engine's IPython shell.
      cell: The state in which the start and the end of a cell are noted.
      before: Called on the main thread when a cell of the notebook starts, with the request and its label.
      ended: Called on the main thread when a cell's code has ended, before its reply, with the label (None for a
        cell that is not nbdist's) and whether the cell failed.
      admit: Called with the label before a cell runs; raises where the cell must not run.
    """

    def __init__(
        self,
        shell: Any,
        cell: CurrentCell,
        *,
        before: Callable[[dict[str, Any], CellLabel], None],
        ended: Callable[[CellLabel | None, bool], None],
        admit: Callable[[CellLabel], None],
    ) -> None:
        self._shell = shell
        self._cell = cell
        self._before = before
        self._ended = ended
        self._admit = admit

    def install(self) -> None:
        """Register the hooks; call once for each shell."""
        self._shell.input_transformers_post.append(self._number_as_the_notebook)
        self._shell.events.register("pre_run_cell", self._started)
        self._shell.events.register("post_run_cell", self._finished)

    def _request(self) -> tuple[dict[str, Any], CellLabel | None]:
        """Return the request that runs now, and its label; the label is None if it is not nbdist's.

        Raises:
          WireError: The label is nbdist's, and cannot be read.
        """
        request = self._shell.kernel.get_parent("shell") or {}
        return request, label_from((request.get("metadata") or {}).get("label") or "")

    def _number_as_the_notebook(self, lines: list[str]) -> list[str]:
        _, ours = self._request()
        if ours is None:
            return lines
        self._admit(ours)
        # Tracebacks say "Cell In[12], line 3"; both numbers are to be the notebook's.
        self._shell.execution_count = ours.cell
        return ["\n"] * ours.offset + lines

    def _started(self, info: Any) -> None:
        request, ours = self._request()
        if ours is not None:
            enter(Door(ours.door))
            self._before(request, ours)
            self._cell.started(
                ours.cell,
                "\n" * ours.offset + info.raw_cell,
                run=ours.run,
                targets=ours.targets,
            )

    def _finished(self, result: Any) -> None:
        end_tracing()
        # `or` would call the error's `__bool__`, which may be the user's.
        kind = "error_in_exec" if result.error_before_exec is None else "error_before_exec"
        error = getattr(result, kind)
        if error is None and has_failed_to_show(self._shell):
            # A `__repr__` has raised.
            kind, error = "error_in_exec", sys.last_value
        keep_failure(self._shell, error)
        if error is not None:
            error = showable(error)
            setattr(result, kind, error)  # ipykernel's reply takes its text from there
        ours = None
        with contextlib.suppress(WireError):  # raised already, before the cell could start
            _, ours = self._request()
        self._ended(ours, error is not None)
        self._cell.finished(f"{type(error).__name__}: {error}" if error is not None else None)


REMEMBERED = 10_000
"""Most taken requests that are remembered, the newest ones. No more than these wait behind one that runs."""

ABORT = "abort_request"


def report_withdrawals(kernel: Any) -> None:
    """Make a kernel say for certain of each request that is withdrawn whether it came in time.

    ipyparallel's engine drops a request that was aborted while it waited behind others (`Client.abort`). By
    itself, ipyparallel's reply to the abort does not say which requests were running already. After this call,
    from its next request on, the kernel notes the requests that it takes, and the reply names those that it had
    taken. Call this once.

    `should_handle` and `control_handlers` are what ipykernel offers to subclasses. The main thread takes requests:
    it notes one, then looks whether it is withdrawn. The thread of the control channel withdraws requests: it
    marks one, then looks whether it is noted. So at least one thread sees the other.
    """
    taken: deque[str] = deque(maxlen=REMEMBERED)
    should_handle, abort = kernel.should_handle, kernel.control_handlers[ABORT]

    def note_and_handle(stream: Any, message: dict[str, Any], idents: Any) -> Any:
        taken.append(message["header"]["msg_id"])
        return should_handle(stream, message, idents)

    def abort_and_report(stream: Any, ident: Any, parent: dict[str, Any]) -> Any:
        wanted = parent["content"].get("msg_ids")
        if not isinstance(wanted, list) or not wanted:
            return abort(stream, ident, parent)
        kernel.aborted.update(map(str, wanted))
        found = [request for request in wanted if request in taken]
        content = {"status": "ok", "taken": found}
        kernel.session.send(stream, "abort_reply", content, parent=parent, ident=ident)
        return None

    kernel.should_handle = note_and_handle
    kernel.control_handlers[ABORT] = abort_and_report


def name_cells(cell_of: Callable[[str], int | None]) -> None:
    """Make warnings say `cell 12, line 3` in place of the file that a cell was compiled under.

    That file's name has the id of the process in it, so equal warnings would differ between processes.

    Args:
      cell_of: Returns the notebook's number of the cell with code of this file; None for any other file.
    """
    original = warnings.formatwarning

    @functools.wraps(original)
    def formatwarning(
        message: Warning | str,
        category: type[Warning],
        filename: str,
        lineno: int,
        line: str | None = None,
    ) -> str:
        text = original(message, category, filename, lineno, line)
        cell = cell_of(filename)
        named = f"{filename}:{lineno}: "
        if cell is None or not text.startswith(named):
            return text
        return f"cell {cell}, line {lineno}: {text.removeprefix(named)}"

    warnings.formatwarning = formatwarning


def close_gaps(
    shell: Any,
    *,
    wanted: Callable[[], bool],
    ask: Callable[[str], str],
    widgets: Callable[[], bool],
) -> None:
    """Close all gaps; call once for each shell, before interrupts are handled.

    Args:
      shell: The engine's IPython shell.
      wanted: As for `refuse_input`.
      ask: As for `refuse_input`.
      widgets: As for `choose_progress_bars`.
    """
    show_any_error(shell, showable)
    hide_own_frames(shell)
    threads_speak_for_cells(shell)
    refuse_input(shell.kernel, wanted=wanted, ask=ask)
    refuse_exit(shell)
    explain_incomplete(shell)
    name_cells_alike(shell)
    show_help(shell)
    choose_progress_bars(widgets)
    allow_await(shell.kernel)
    allow_shell_commands()


def threads_speak_for_cells(shell: Any) -> None:
    """Make output of threads appear as output of the newest cell, also when a call has come after it.

    ipykernel takes what a thread without a context of its own shows (a thread of Python before 3.14, a callback of
    XLA) for output of the newest request. Between cells nbdist sends other requests, whose output nobody sees.
    """
    set_parent = shell.set_parent
    newest: list[Any] = []

    def set_parent_of_cells(parent: Any) -> None:
        set_parent(parent)
        if (parent or {}).get("header", {}).get("msg_type") == "execute_request":
            newest[:] = [parent]
        elif newest:
            # Run in a context of its own, this changes only the parent that threads fall back on.
            contextvars.Context().run(set_parent, newest[0])

    shell.set_parent = set_parent_of_cells


def refuse_input(kernel: Any, *, wanted: Callable[[], bool], ask: Callable[[str], str]) -> None:
    """Make `input()` and `getpass()` fail with a text that helps, except in a debugger.

    For each cell, ipykernel binds the two to public methods of the kernel, which this function replaces.

    Args:
      kernel: The kernel of ipyparallel's engine.
      wanted: Returns whether a debugger reads commands.
      ask: Takes a prompt and returns the command that a person types.
    """

    def refuse(prompt: object = "", *_: object, **__: object) -> str:
        if wanted():
            return ask(str(prompt))
        raise SessionError(
            f"input({str(prompt)!r}) cannot be answered: the processes have no keyboard. Ask in the notebook "
            f"and send the answer with {command('push')}."
        )

    kernel.raw_input = refuse
    kernel.getpass = refuse


def refuse_exit(shell: Any) -> None:
    """Make `exit` and `quit` in a cell fail with a text that helps; they would end the process.

    IPython's `exit` calls the public method `ask_exit` of its shell. After a `sys.exit()` IPython warns that one
    should use `exit` instead, which is wrong on an engine.
    """

    def refuse() -> None:
        raise SessionError(
            "exit() and quit() would end this process and lose its variables. Nothing was ended. raise or "
            f"sys.exit() leaves a cell; {command('shutdown')} ends the session."
        )

    shell.ask_exit = refuse
    warnings.filterwarnings("ignore", message="To exit: use", category=UserWarning)


def explain_incomplete(shell: Any) -> None:
    """Make a cell with an open bracket fail with Python's own `'(' was never closed`.

    IPython compiles cells as if more lines could follow, and Python 3.13 then says `_IncompleteInputError`.
    """
    shell.compile.reset_compiler_flags()


def name_cells_alike(shell: Any) -> None:
    """Compile a cell under the same file name on all processes, so that the tracebacks they print are equal.

    ipykernel's name, `/tmp/ipykernel_4711/123.py`, contains the id of the process. The method is public.
    """
    get_code_name = shell.compile.get_code_name

    def named(*args: Any, **options: Any) -> str:
        return re.sub(r"(?<=ipykernel_)\d+", "0", get_code_name(*args, **options))

    shell.compile.get_code_name = named


def show_help(shell: Any) -> None:
    """Make `name?` in a cell show its text as output of the cell.

    ipykernel sends the text as a payload of the reply, for a pager of the front end; ipyparallel drops payloads.
    """

    def show(_: Any, data: Any, start: int = 0, screen_lines: int = 0) -> None:
        bundle = data if isinstance(data, dict) else {"text/plain": str(data)}
        kept = {mime: value for mime, value in bundle.items() if mime.startswith("text/")}
        shell.display_pub.publish(data=kept)

    shell.set_hook("show_in_pager", show, priority=10)


def allow_shell_commands() -> None:
    """Hide JAX's warning about forks, for `!command` alone.

    IPython runs a command by fork and exec at once, which is safe beside JAX's threads; the warning, on every
    process and every command, would hide the command's own output.
    """
    warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", module="pty")


def hide_own_frames(shell: Any) -> None:
    """Make tracebacks of nbdist's errors end at the user's line, without nbdist's own frames.

    IPython leaves out frames with `__tracebackhide__`, but never the innermost.
    """

    def show(shell: Any, kind: Any, error: Any, at: Any, tb_offset: int | None = None) -> None:
        shell.showtraceback((kind, error, _without_own_end(at)), tb_offset=tb_offset)

    shell.set_custom_exc((NbdistError,), show)


def _without_own_end(at: TracebackType) -> TracebackType:
    """Return a traceback that ends where nbdist was called; the outermost entry always stays."""
    entries = [at]
    while entries[-1].tb_next is not None:
        entries.append(entries[-1].tb_next)
    while len(entries) > 1 and _is_own(entries[-1]):
        entries.pop()
    left: TracebackType | None = None
    for entry in reversed(entries):
        left = TracebackType(left, entry.tb_frame, entry.tb_lasti, entry.tb_lineno)
    return left or at


def _is_own(entry: TracebackType) -> bool:
    return str(entry.tb_frame.f_globals.get("__name__")).startswith("nbdist.")


NOTEBOOK = "tqdm.notebook"
NAMES = frozenset({"tqdm.autonotebook", NOTEBOOK})
"""The modules of tqdm whose bars are replaced."""

EITHER = ("display", "__iter__", "update", "close", "clear", "reset")
"""Methods in which a bar of widgets differs from one of text (tqdm 4.67)."""


def choose_progress_bars(widgets: Callable[[], bool]) -> None:
    """Make each new bar of `tqdm.auto` and `tqdm.notebook` a widget where widgets are shown, else a line of text.

    By itself, tqdm takes every engine for a notebook (`tqdm.autonotebook` looks for `ipykernel.zmqshell`), even if
    a terminal or a script shows the output.

    Args:
      widgets: Called when a bar is made; returns whether widgets are shown.
    """
    if not any(isinstance(finder, _Bars) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Bars(widgets))


class _Bars(MetaPathFinder, Loader):
    """An import hook that gives both modules bars of either kind."""

    def __init__(self, widgets: Callable[[], bool]) -> None:
        self._widgets = widgets

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        return ModuleSpec(fullname, self) if fullname in NAMES else None

    def exec_module(self, module: ModuleType) -> None:
        if module.__name__ != NOTEBOOK:
            notebook = importlib.import_module(NOTEBOOK)
            module.__dict__.update(tqdm=notebook.tqdm, trange=notebook.trange)
            return
        std = importlib.import_module("tqdm.std")
        bar = either(std.tqdm, self._notebook_bar(module), self._widgets)

        def trange(*args: Any, **options: Any) -> Any:
            return bar(range(*args), **options)

        module.__dict__.update(tqdm=bar, trange=trange, tqdm_notebook=bar, tnrange=trange)

    def _notebook_bar(self, module: ModuleType) -> type[Any] | None:
        """Return tqdm's own class of widgets; None where ipywidgets is missing."""
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(module.__name__, _path(), None)
            if spec is not None and spec.loader is not None:
                spec.loader.exec_module(module)
                break
        there = module.__dict__.get("IProgress") is not None
        return module.__dict__["tqdm_notebook"] if there else None


def _path() -> list[str]:
    return list(importlib.import_module("tqdm").__path__)


def either(text: type[Any], widget: type[Any] | None, widgets: Callable[[], bool]) -> type[Any]:
    """Return a class of bars, which users may derive from; each bar keeps the kind it is made with.

    Args:
      text: `tqdm.std.tqdm`.
      widget: `tqdm.notebook.tqdm_notebook`, a subclass of `text`; None where there is none.
      widgets: Returns whether a new bar is one of widgets.
    """

    class Bar(widget or text):  # type: ignore[misc]
        """`tqdm.notebook.tqdm` or `tqdm.std.tqdm`."""

        def __init__(self, *args: Any, **options: Any) -> None:
            self._kind = widget if widget is not None and widgets() else text
            if self._kind is text:
                options.pop("display", None)  # for widgets alone
            self.status_printer = self._kind.status_printer
            self._kind.__init__(self, *args, **options)

    def method(name: str) -> Callable[..., Any]:
        def call(self: Any, *args: Any, **options: Any) -> Any:
            return getattr(getattr(self, "_kind", text), name)(self, *args, **options)

        return call

    for name in EITHER:
        setattr(Bar, name, method(name))
    return Bar
