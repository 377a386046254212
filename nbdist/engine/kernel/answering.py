"""A thread that answers a kernel's questions while the main thread may be in the middle of a cell."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import threading
from typing import TYPE_CHECKING, Any

from nbdist.contract.asides import (
    BY_LETTER,
    QUESTION,
    Abandon,
    Answer,
    Aside,
    CompareBefore,
    Count,
    Cut,
    Digests,
    Free,
    GiveLine,
    LineTaken,
    Question,
    ReadNativeStacks,
    ReadStacks,
    Repeat,
    Rescue,
    StepsBegun,
    StopAtStep,
    Threads,
    question_from,
)
from nbdist.contract.iopub import AsideAnswer
from nbdist.contract.wire import answer_type
from nbdist.engine.cell.stacks import MainThread, native_stacks, stacks
from nbdist.machine.folder import read_whole
from nbdist.message_guard import MessageGuard

if TYPE_CHECKING:
    from nbdist.engine.kernel.resident import Resident

logger = logging.getLogger(__name__)


def answer_questions(resident: Resident) -> None:
    """Begin to answer questions that kernels ask past the main thread; call this on the main thread.

    Questions come through the agent of this host, over a descriptor that it gave the process (`NBDIST_ASKED`). A
    process that nbdist has not started has no such descriptor. A second call changes nothing.
    """
    asked = os.environ.pop("NBDIST_ASKED", None)
    if asked is not None:
        resident.lines.reachable = True
        os.set_inheritable(int(asked), False)
        Answering(resident, running_loop()).start(int(asked))


class Answering:
    """The thread that answers the questions of kernels.

    Args:
      resident: The state that nbdist keeps on this engine.
      loop: The event loop in which the main thread handles requests; None if there is none.
    """

    def __init__(self, resident: Resident, loop: asyncio.AbstractEventLoop | None) -> None:
        self._resident = resident
        self._loop = loop
        self._main_thread = MainThread(threading.main_thread().ident or 0)

    def start(self, asked: int) -> None:
        """Start the thread that reads questions from the descriptor `asked`."""
        threading.Thread(
            target=self.until_end, args=(asked,), name="nbdist-asked", daemon=True
        ).start()

    def until_end(self, asked: int) -> None:
        """Answer questions until the descriptor is closed; a question that fails does not end the loop."""
        guard = MessageGuard("A question of a kernel", logger)
        while letters := os.read(asked, 4096):
            with guard:
                self.do({BY_LETTER[letter] for letter in letters.decode()})

    def do(self, asked: set[type[Aside[Any]]]) -> None:
        """Do everything that was asked at once."""
        resident, publisher = self._resident, self._resident.publisher
        if resident.step is not None:
            if Abandon in asked:
                resident.step.abandon()
            if Cut in asked or (Free in asked and self._is_out_of_reach()):
                resident.step.cut()
            if Count in asked:
                publisher.publish(resident.step.sent_so_far(self._main_thread))
        if Repeat in asked:
            self._say_again()
        if Rescue in asked and resident.step is not None:
            rescued = resident.framework.recovery().rescue(
                resident.shell.user_ns, resident.process_id
            )
            if rescued is not None:
                publisher.publish(rescued)
        # Last: a question that cannot be read must not stop anything else that was asked at once.
        if any(answer_type(one) is not None for one in asked):
            self._read_question(asked)

    def _read_question(self, asked: set[type[Aside[Any]]]) -> None:
        """Answer the question in the file if its type is in `asked`; the file may hold a later question."""
        resident = self._resident
        found = read_whole(resident.folder / QUESTION)
        if found is None:
            return
        question = question_from(found)
        if type(question.aside) not in asked:
            return
        match question.aside:
            case CompareBefore(code=code):
                if self._loop is not None:
                    self._loop.call_soon_threadsafe(self._compare, question, code)
            case StopAtStep(run=run):
                self._answer_to(question, StepsBegun(steps=resident.stop.ask(run)))
            case GiveLine(to=number, reply=reply):
                self._answer_to(question, LineTaken(taken=resident.lines.put(number, reply)))
            case ReadStacks():
                self._answer_to(question, Threads(threads=stacks(resident.code_name)))
            case ReadNativeStacks():
                # Native stacks take seconds; meanwhile this thread may have to cut collectives.
                threading.Thread(
                    target=lambda: self._answer_to(question, native_stacks()),
                    name="nbdist-native",
                    daemon=True,
                ).start()

    def _compare(self, question: Question, code: str) -> None:
        """Answer with digests of the facts that must be equal before a cell; runs on the main thread."""
        if self._resident.cell.running:
            return  # a cell runs: digests taken now would describe its middle
        self._answer_to(question, Digests(digests=self._resident.agreement().digests(code)))

    def _answer_to(self, question: Question, answer: Answer) -> None:
        """Send the answer to a question of `nbdist.session.reports`."""
        resident = self._resident
        resident.publisher.broadcast(
            AsideAnswer(process_id=resident.process_id, number=question.number, answer=answer)
        )

    def _is_out_of_reach(self) -> bool:
        """Return whether the main thread is, or may be, blocked where no signal reaches it, as in a collective.

        A cut costs a repair, so the answer is False for a main thread that comes back by itself: one that
        computes, sleeps, waits for an event or a queue (as `print(…, flush=True)` does), or is on its way out
        after an interrupt.
        """
        thread = self._main_thread
        if self._resident.interrupts.leaving or thread.waits_for_a_thread() is False:
            return False
        return not thread.waits_in_threading()

    def _say_again(self) -> None:
        resident = self._resident
        if resident.probe is not None:
            resident.probe.say_again()
        resident.publisher.echo(resident.echo.of())


def running_loop() -> asyncio.AbstractEventLoop | None:
    """Return the event loop in which the engine's main thread handles requests; None outside of one."""
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None
