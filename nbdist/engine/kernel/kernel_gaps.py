"""Gaps of IPython, ipykernel and tqdm inside an ipyparallel engine, each closed by one function."""

from __future__ import annotations

import contextvars
import functools
import importlib
import re
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType, TracebackType
from typing import Any

from nbdist.errors import NbdistError, SessionError, showable
from nbdist.spelling import command


def allow_await(kernel: Any) -> bool:
    """Make cells with a top-level `await` run on an engine, and make them interruptible.

    Private API: ipykernel 7 asks `kernel.shell_channel_thread.parent_thread` before it awaits a cell; an
    engine has no such thread, and the cell would end without a reply (ipykernel 7.4,
    `IPythonKernel.do_execute`). A stand-in answers that question. By the same attribute ipykernel decides whether
    there are subshells (`_supports_kernel_subshells`), so the kernel's class says no to that by itself.

    Returns:
      True if anything had to be done.
    """
    if getattr(kernel, "shell_channel_thread", False) is not None:
        return False
    without_subshells = {"_supports_kernel_subshells": False}
    kernel.__class__ = type("EngineKernel", (type(kernel),), without_subshells)
    kernel.shell_channel_thread = _NoShellThread()
    return True


class _NoShellThread:
    """A stand-in for the missing thread: false, as None was, and able to say on which thread cells run."""

    parent_thread = threading.main_thread()

    def __bool__(self) -> bool:
        return False


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
            # In a context of its own this changes only the parent that threads fall back on.
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
    """Hide JAX's warning about forks for `!command` alone.

    IPython runs a command by fork and exec at once, which is safe beside JAX's threads; the warning, on every
    process and every command, would hide the command's own output.
    """
    warnings.filterwarnings("ignore", message=r"os\.fork\(\) was called", module="pty")


PRIVATE = ("_showtraceback", "_format_exception_for_storage")
"""The private methods of shells that take the text of an error."""


def show_any_error(shell: Any) -> list[str]:
    """Make a shell publish errors whose text raises under their own name, with their own traceback.

    Private API: ipykernel's `ZMQInteractiveShell._showtraceback` and, since IPython 9,
    `InteractiveShell._format_exception_for_storage` call `str` on the error unguarded; an error that `str` raises
    would then stand for the original. A method that the shell lacks is left out.

    Returns:
      The names of the methods that the shell has.
    """
    there = [name for name in PRIVATE if hasattr(shell, name)]
    for name in there:
        setattr(shell, name, _given_showable(getattr(shell, name)))
    return there


def _given_showable(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def call(*args: Any, **options: Any) -> Any:
        shown = [showable(one) if isinstance(one, BaseException) else one for one in args]
        return original(*shown, **options)

    return call


def hide_own_frames(shell: Any) -> None:
    """Make a shell show the errors that nbdist raises at the user's line that they are about.

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

    By itself, tqdm takes an engine for a notebook (`tqdm.autonotebook` looks for `ipykernel.zmqshell`), also where
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
