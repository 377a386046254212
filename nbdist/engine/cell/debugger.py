"""Debuggers in the middle of a cell (`breakpoint()`, `pdb`, `%debug`, other command loops) that ask the notebook.

Such a loop asks for each line in the output of the cell. The main thread waits for the line, so the line has to
arrive on another thread (`InputLines`). `install` replaces the debuggers of Python and IPython, and the loop of
`cmd.Cmd`. Only the main thread of a process that nbdist has started can wait for lines.
"""

from __future__ import annotations

import bdb
import cmd
import contextlib
import functools
import pdb
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any, NamedTuple

from nbdist.contract.asides import EndOfInput, LineReply, NobodyAnswers, TypedLine
from nbdist.contract.iopub import Prompt
from nbdist.engine.cell.interrupts import Interrupt, InterruptHandler
from nbdist.engine.cell.stacks import is_cell_file
from nbdist.errors import SessionError


class Where(NamedTuple):
    """A line of the running cell: the cell's number, the line's number and text; None for an unknown line."""

    cell: int
    line: int | None
    source: str | None


class InputLines:
    """The questions of one engine to its kernel; all methods but `put` are for the main thread.

    Args:
      publish: Shows a question in the output of the cell, after all earlier output; with None, ends the question.
      where: Returns where the main thread stands; None where no cell runs.
      leaving: Returns whether an interrupt was raised just now.

    Attributes:
      reachable: Whether a line can arrive while the main thread is busy.
      wanted: Whether a debugger is in its loop of commands: a call of `input()` is then the debugger's question.
    """

    def __init__(
        self,
        publish: Callable[[Prompt | None], None],
        *,
        where: Callable[[], Where | None],
        leaving: Callable[[], bool],
    ) -> None:
        self.reachable = False
        self.wanted = False
        self._publish = publish
        self._where = where
        self._leaving = leaving
        self._what = ""
        self._asked: int | None = None
        self._taken: int | None = None
        self._reply: LineReply = EndOfInput()
        self._came = threading.Event()

    @contextlib.contextmanager
    def open(self, what: str) -> Iterator[None]:
        """Enter a debugger's loop of commands; `what` says why, such as `at a breakpoint`.

        Raises:
          SessionError: No notebook can send the debugger lines.
        """
        self._stands()
        self.wanted, self._what = True, what
        try:
            yield
        finally:
            self.wanted = False
            # Runs after an interrupt too: the notebook must not go on asking.
            self._publish(None)

    def ask(self, prompt: str) -> str:
        """Wait until somebody has typed a line, and return it.

        Raises:
          EOFError: The person wants no more lines.
          Interrupt: The cell was interrupted, and a command of the debugger has caught the interrupt.
          SessionError: No notebook can answer.
        """
        stands = self._stands()
        if self._leaving():
            raise Interrupt
        self._came.clear()
        number = self._asked = time.time_ns()
        try:
            self._publish(
                Prompt(
                    number=number,
                    text=prompt,
                    what=self._what,
                    line=stands.line,
                    source=stands.source,
                )
            )
            self._came.wait()
        finally:
            self._asked = None
        match self._reply:
            case NobodyAnswers(why=why):
                raise _unanswered(
                    f"A debugger waits for input, and nobody can answer: {why}", stands
                )
            case EndOfInput():
                raise EOFError
            case TypedLine(text=text):
                return text

    def put(self, number: int, reply: LineReply) -> bool:
        """Take the reply to a question, from one other thread; return whether that question has its reply now."""
        if number == self._asked and not self._came.is_set():
            self._reply, self._taken = reply, number
            self._came.set()
        return number == self._taken

    def _stands(self) -> Where:
        """Return the main thread's position; raise if no line can reach the main thread there."""
        stands = self._where()
        if stands is None:
            raise SessionError(
                "A debugger was started outside of a cell, where nobody can answer it."
            )
        if threading.current_thread() is not threading.main_thread():
            raise _unanswered(
                f"A debugger was started in the thread {threading.current_thread().name}; only the main thread of "
                "a process can wait for lines.",
                stands,
            )
        if not self.reachable:
            raise _unanswered(
                "A debugger cannot be answered on this process: nbdist has not started it, and nothing reaches it "
                "while it runs a cell.",
                stands,
            )
        return stands


def _unanswered(text: str, stands: Where) -> SessionError:
    """Return an error that IPython shows without the debugger's frames, which explain nothing."""
    error = SessionError(text)
    shown = [
        f"SessionError: {text}",
        f"   Cell In[{stands.cell}], line {stands.line}: {stands.source}",
    ]
    error._render_traceback_ = lambda: shown  # type: ignore[attr-defined]
    return error


NOT_THE_USERS = frozenset({"nbdist", "IPython", "ipykernel", "ipyparallel", "zmq"})
"""Packages in which no step stops, nor in code they call: they run a cell, show output, receive interrupts."""

NOT_THE_FAILURES = frozenset({"nbdist", "IPython", "pdb", "bdb", "cmd"})
"""Packages of the innermost frames of a process that waited or was at a prompt; no post-mortem begins there."""

AT_A_BREAKPOINT, AFTER_A_FAILURE, AT_A_PROMPT = (
    "at a breakpoint",
    "in a post-mortem",
    "at a prompt",
)
"""Reasons for a loop of commands, as a question names them."""

PASSED_OVER = (
    "jax.debug.breakpoint() was passed over: with arrays on several devices it is called in a thread of XLA, "
    "where nobody can be asked. jax.debug.print() shows values there."
)

CellOf = Callable[[str], int | None]
"""A function that returns the notebook's number of the cell with code of this file; None for any other file."""


def install(shell: Any, lines: InputLines, interrupts: InterruptHandler, cell_of: CellOf) -> None:
    """Install the debugger, with effect at once; call once.

    `pdb.set_trace`, `pdb.post_mortem` and Python's own `sys.breakpointhook` make a `pdb.Pdb`. That class is public
    and is replaced, as ipykernel does in a kernel of its own. So are the classes of which IPython's commands make
    debuggers. `PYTHONBREAKPOINT` keeps its meaning.
    """
    from IPython.core import debugger

    kind = debugger_class(debugger.Pdb, lines, interrupts, cell_of)
    # ipykernel imports debugpy, which sets a hook of its own; without a client that hook does nothing.
    sys.breakpointhook = sys.__breakpointhook__
    for module in (pdb, debugger):
        vars(module)["Pdb"] = kind
    vars(debugger)["InterruptiblePdb"] = kind  # IPython's own, which ends at an interrupt
    shell.InteractiveTB.debugger_cls = kind
    answer_command_loops(lines, interrupts)


def debugger_class(
    base: type[Any], lines: InputLines, interrupts: InterruptHandler, cell_of: CellOf
) -> type[Any]:
    """Return a subclass of `base`, IPython's debugger, that reads the lines of a person at the notebook."""

    class NotebookPdb(base):
        """A debugger whose loop of commands ends at an interrupt, which goes on to the cell."""

        def __init__(self, *args: Any, **options: Any) -> None:
            # A SIGINT handler of pdb's own would replace nbdist's from the first `continue` on.
            options["nosigint"] = True
            super().__init__(*args, **options)
            self._interrupt: KeyboardInterrupt | None = None
            self._what = AT_A_BREAKPOINT

        def interaction(self, frame: Any, *args: Any, **options: Any) -> None:
            """Run the loop of commands, on a traceback if there is no frame; raise an interrupt after it."""
            self._interrupt = None
            self._what = AT_A_BREAKPOINT if frame is not None else AFTER_A_FAILURE
            if frame is None and args:
                args = (_in_the_cell(args[0]), *args[1:])
            super().interaction(frame, *args, **options)
            # IPython only shows an interrupt, and goes on.
            if self._interrupt is not None or interrupts.leaving:
                interrupt = self._interrupt or Interrupt()
                if frame is None:
                    interrupt.looked_at = getattr(sys, "last_value", None)  # type: ignore[attr-defined]
                raise interrupt

        def get_stack(self, frame: FrameType | None, *args: Any) -> tuple[list[Any], int]:
            """Return the stack; a post-mortem begins in the code that has failed, or waited."""
            stack, at = super().get_stack(frame, *args)
            if frame is not None:
                return stack, at
            while len(stack) > 1 and _package(stack[-1][0]) in NOT_THE_FAILURES:
                stack.pop()
            return stack, len(stack) - 1

        def format_stack_entry(self, frame_lineno: tuple[FrameType, int], *args: Any) -> str:
            """Return an entry as text, with `> cell 12(3)` in place of the file a cell was compiled under."""
            text = str(super().format_stack_entry(frame_lineno, *args))
            file = frame_lineno[0].f_code.co_filename
            cell = cell_of(file)
            return text if cell is None else text.replace(self.canonic(file), f"cell {cell}", 1)

        def stop_here(self, frame: FrameType) -> bool:
            """Return whether to stop here; code between and after a cell's statements is not the user's."""
            return _is_the_users(frame) and bool(super().stop_here(frame))

        def user_call(self, frame: FrameType, arguments: Any) -> None:
            """Handle a call; ignore a statement of a cell, which is code of its own and looks like a call."""
            if not _is_statement(frame):
                super().user_call(frame, arguments)

        def user_return(self, frame: FrameType, value: Any) -> None:
            """Handle a return; ignore that of a cell's statement, which returns to no code of the user's."""
            if not _is_statement(frame):
                super().user_return(frame, value)

        def cmdloop(self, intro: Any = None) -> None:
            with lines.open(self._what):
                try:
                    super().cmdloop(intro)
                except KeyboardInterrupt as interrupt:
                    self._interrupt = interrupt

    return NotebookPdb


def answer_command_loops(lines: InputLines, interrupts: InterruptHandler) -> None:
    """Give loops built on `cmd.Cmd`, such as `jax.debug.breakpoint()`, the lines of a person at the notebook.

    An interrupt ends the loop and is repeated after it: JAX's debugger would catch the interrupt and begin its
    loop again. On a thread of XLA, JAX's debugger is skipped: an error there would leave the processes waiting for
    each other.
    """
    cmdloop = cmd.Cmd.cmdloop

    @functools.wraps(cmdloop)
    def answered(self: cmd.Cmd, intro: Any = None) -> None:
        if lines.wanted or not self.use_rawinput:
            cmdloop(self, intro)
            return
        elsewhere = threading.current_thread() is not threading.main_thread()
        if elsewhere and type(self).__module__.startswith("jax."):
            print(PASSED_OVER, file=sys.stderr)
            return
        with lines.open(AT_A_PROMPT):
            try:
                cmdloop(self, intro)
            except KeyboardInterrupt:
                interrupts.again()

    cmd.Cmd.cmdloop = answered  # type: ignore[method-assign]


def _is_statement(frame: FrameType) -> bool:
    return frame.f_code.co_name == "<module>" and is_cell_file(frame.f_code.co_filename)


def _is_the_users(frame: FrameType | None) -> bool:
    """Return whether a cell has called this frame, other than through code that shows the cell's output."""
    while frame is not None:
        if is_cell_file(frame.f_code.co_filename):
            return True
        if _package(frame) in NOT_THE_USERS:
            return False
        frame = frame.f_back
    return False


def _in_the_cell(failure: Any) -> Any:
    """Return the error that left the cell, also where an interrupt came after it; `failure` if no error did."""
    error = failure if isinstance(failure, BaseException) else None
    while error is not None:
        frames = traceback.walk_tb(error.__traceback__)
        if any(is_cell_file(frame.f_code.co_filename) for frame, _ in frames):
            return error
        error = error.__context__
    return failure


def _package(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__")).partition(".")[0]


def keep_failure(shell: Any, interrupt: BaseException | None) -> None:
    """Keep the error that an interrupted post-mortem looked at, for the next one."""
    looked_at = getattr(interrupt, "looked_at", None)
    if looked_at is not None:
        sys.last_type, sys.last_value = type(looked_at), looked_at
        sys.last_traceback = looked_at.__traceback__
        vars(sys)["last_exc"] = looked_at  # since Python 3.12
        shell.InteractiveTB.tb = looked_at.__traceback__


def end_tracing() -> None:
    """End the tracing that a cell has left on, as after `next` at the cell's last line."""
    if isinstance(getattr(sys.gettrace(), "__self__", None), bdb.Bdb):
        sys.settrace(None)
