"""A line from the person at this kernel, who is asked no longer when it is not wanted any more."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable

from nbdist.contract.questions import EndOfInput, LineReply, NobodyAnswers, TypedLine
from nbdist.interrupts import let_through, put_off

LOOK_SECONDS = 0.1
"""How often is looked whether a line is still wanted."""

ARRIVAL_SECONDS = 5.0
"""How long a signal to this process's own main thread may take; it takes microseconds."""


def ask_person(prompt: str, wanted: Callable[[], bool]) -> LineReply | None:
    """Asks with `input()`, in a notebook as in a terminal.

    Args:
      prompt: What stands before the line.
      wanted: Called from another thread, again and again; once it answers False, nobody is asked any longer.

    Returns:
      What was typed, or None where it is no longer wanted.

    Raises:
      KeyboardInterrupt: The person's.
    """
    if threading.current_thread() is not threading.main_thread():
        return NobodyAnswers(
            why="this cell runs in a thread, and only the main thread can ask for input."
        )
    with let_through():
        looking = _Looking(wanted)
        try:
            try:
                looking.start()
                reply = _read(prompt)
            finally:
                looking.end()
            looking.let_arrive()
        except KeyboardInterrupt:
            if not looking.ended_it:
                raise
            return None
        return reply


def _read(prompt: str) -> LineReply:
    try:
        return TypedLine(text=input(prompt))
    except EOFError:
        return EndOfInput()
    except (NotImplementedError, RuntimeError, OSError) as error:
        # A notebook that runs without anybody, as in nbconvert; a program without input.
        return NobodyAnswers(why=f"this kernel has no input ({error})")


class _Looking:
    """Interrupts `input()` in the main thread once nobody wants its answer; `input` has no other way to end."""

    def __init__(self, wanted: Callable[[], bool]) -> None:
        self.ended_it = False
        self._wanted = wanted
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="nbdist-prompt", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        """Looks no longer."""
        with put_off():
            self._over.set()
            self._thread.join()

    def let_arrive(self) -> None:
        """Raises the interrupt that was sent when the line was there already."""
        if self.ended_it:
            time.sleep(ARRIVAL_SECONDS)

    def _look(self) -> None:
        main = threading.main_thread().ident or 0
        while not self._over.wait(LOOK_SECONDS):
            if not self._wanted():
                self.ended_it = True
                # To the thread itself: only a real signal ends a read from a terminal.
                signal.pthread_kill(main, signal.SIGINT)
                return
