"""The prompts of one cell: which process is served next, who answers, and how the line gets to the process.

`Prompts` asks for one process at a time, and `ask_person` reads the line from the person at this kernel.
`prompts_text` says who waits while debuggers on processes ask for lines.
"""

from __future__ import annotations

import signal
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Mapping

from nbdist.contract.asides import EndOfInput, LineReply, NobodyAnswers, TypedLine
from nbdist.contract.iopub import Prompt
from nbdist.interrupts import let_through, put_off
from nbdist.notation import processes_text
from nbdist.session.cells.execution import Execution
from nbdist.spelling import command

LOOK_SECONDS = 0.1
"""How often to check whether a line is still wanted."""

ARRIVAL_SECONDS = 5.0
"""The longest wait for a signal to this process's own main thread; it takes microseconds."""


def ask_person(prompt: str, wanted: Callable[[], bool]) -> LineReply | None:
    """Ask the person at this kernel for a line with `input()`, in a notebook as in a terminal.

    Args:
      prompt: The text before the line.
      wanted: Called from another thread, repeatedly; once it returns False, the question is withdrawn.

    Returns:
      What was typed, or why nothing was; None if the line is no longer wanted.

    Raises:
      KeyboardInterrupt: The person pressed interrupt.
    """
    if threading.current_thread() is not threading.main_thread():
        return NobodyAnswers(
            why="this cell runs in a thread, and only the main thread can ask for input."
        )
    with let_through():
        watch = _InputWatch(wanted)
        try:
            try:
                watch.start()
                reply = _read(prompt)
            finally:
                watch.end()
            watch.let_arrive()
        except KeyboardInterrupt:
            if not watch.ended_it:
                raise
            return None
        return reply


def _read(prompt: str) -> LineReply:
    try:
        return TypedLine(text=input(prompt))
    except EOFError:
        return EndOfInput()
    except (NotImplementedError, RuntimeError, OSError) as error:
        # A notebook that runs unattended, as in nbconvert, or a program without input.
        return NobodyAnswers(why=f"this kernel has no input ({error})")


class _InputWatch:
    """Interrupts `input()` in the main thread once its answer is not wanted; `input` ends in no other way."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.ended_it = False
        self._wanted = wanted
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="nbdist-prompt", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Stop watching."""
        with put_off():
            self._over.set()
            self._thread.join()

    def let_arrive(self) -> None:
        """Wait for an interrupt that was sent just after the line was typed, so that it is raised here."""
        if self.ended_it:
            time.sleep(ARRIVAL_SECONDS)

    def _look(self) -> None:
        main = threading.main_thread().ident or 0
        while not self._over.wait(LOOK_SECONDS):
            if not self._wanted():
                self.ended_it = True
                # Sent to the thread itself: only a real signal ends a read from a terminal.
                signal.pthread_kill(main, signal.SIGINT)
                return


SETTLE_SECONDS = 0.2
"""The wait after the first prompt for others at the same breakpoint: the lowest process is served first."""

COMMAND_SECONDS = 1.0
"""How long a process that got a line has for its next question, before another process is served."""


class Prompts:
    """The prompts of a cell, which the person who waits for the cell answers one at a time.

    Args:
      execution: The cell's execution.
      reply: Sends a process the reply to a question of this number; returns whether it was taken.
      show: Brings all output so far to the screen.
      repeat: Shows the typed line after the output of the process.
      ask: Asks the person; see `ask_person`.
    """

    def __init__(
        self,
        execution: Execution,
        *,
        reply: Callable[[int, int, LineReply], bool],
        show: Callable[[], None],
        repeat: Callable[[int, str], None],
        ask: Callable[[str, Callable[[], bool]], LineReply | None] = ask_person,
    ) -> None:
        self._execution = execution
        self._reply = reply
        self._show = show
        self._repeat = repeat
        self._ask = ask
        self._since: float | None = None

    def answer(self) -> None:
        """Ask the person for one line, if one is due, and send it.

        Raises:
          KeyboardInterrupt: The person pressed interrupt.
        """
        prompts = self._execution.prompts()
        if not self._due(prompts, time.monotonic()):
            return
        process_id = min(prompts)
        prompt = prompts[process_id]
        self._show()
        reply = self._ask(
            f"process {process_id} {prompt.text}",
            lambda: self._execution.wants(process_id, prompt.number),
        )
        if reply is None:
            return
        if isinstance(reply, TypedLine):
            self._repeat(process_id, f"{prompt.text}{reply.text}\n")
        self._execution.give(
            process_id, prompt, lambda: self._reply(process_id, prompt.number, reply)
        )

    def _due(self, prompts: Mapping[int, Prompt], now: float) -> bool:
        line_sent_at = self._execution.line_sent_at
        if not prompts and line_sent_at is None:
            self._since = None
        if not prompts or (line_sent_at is not None and now - line_sent_at < COMMAND_SECONDS):
            return False
        self._since = self._since or now
        return now - self._since >= SETTLE_SECONDS


def prompts_text(prompts: Mapping[int, Prompt], *, others: bool, attended: bool) -> str | None:
    """Return which processes are at a prompt, and what the others do; None if the prompt itself says enough.

    Args:
      prompts: The prompts, by process id.
      others: Whether other processes are still in the cell.
      attended: Whether somebody waits for the cell, and is asked.
    """
    if attended and not others and len(prompts) == 1:
        return None
    places: dict[str, list[int]] = defaultdict(list)
    for process_id, prompt in sorted(prompts.items()):
        places[prompt.place].append(process_id)
    lines = [f"{processes_text(ids)}   {where}" for where, ids in places.items()]
    first = min(prompts)
    endings = ["the others wait"] if others else []
    if not attended:
        endings.append(f"{command('debug', first)} opens the prompt")
    elif len(prompts) > 1:
        endings.append(f"asked one after another, process {first} first")
        if not others:
            endings.append(f"if jax.process_index() == {first}: breakpoint() stops that one alone")
    return "; ".join(["\n".join(lines), *endings])
