"""Lines for a debugger on an engine: asked for on the main thread, given from another."""

from __future__ import annotations

import threading

import pytest

from nbdist.contract.asides import EndOfInput, LineReply, NobodyAnswers, TypedLine
from nbdist.contract.iopub import Prompt
from nbdist.engine.cell.debugger import InputLines, Where
from nbdist.engine.cell.interrupts import Interrupt
from nbdist.errors import SessionError


class Engine:
    """Publishes questions; each is answered on a thread of its own, as asides are."""

    def __init__(self, *replies: LineReply) -> None:
        self.published: list[Prompt | None] = []
        self.replies = list(replies)
        self.taken: list[bool] = []
        self.stands: Where | None = Where(7, 4, "breakpoint()")
        self.leaving = False
        self.lines = InputLines(
            self.publish, where=lambda: self.stands, leaving=lambda: self.leaving
        )
        self.lines.reachable = True

    def publish(self, prompt: Prompt | None) -> None:
        self.published.append(prompt)
        if prompt is not None and self.replies:
            threading.Thread(target=self.answer, args=(prompt.number,)).start()

    def answer(self, number: int) -> None:
        reply = self.replies.pop(0)
        self.taken.append(self.lines.put(number + 1, TypedLine(text="for another question")))
        self.taken.append(self.lines.put(number, reply))
        self.taken.append(self.lines.put(number, TypedLine(text="sent again")))


def test_a_line_is_given_once_to_the_question_it_answers() -> None:
    engine = Engine(TypedLine(text="p x"), TypedLine(text="c"))
    with engine.lines.open("at a breakpoint"):
        assert engine.lines.wanted
        assert engine.lines.ask("ipdb> ") == "p x"
        assert engine.lines.ask("ipdb> ") == "c"
    assert not engine.lines.wanted
    first, second, over = engine.published
    assert first is not None and second is not None and over is None
    assert first.number < second.number
    assert first == Prompt(
        number=first.number,
        text="ipdb> ",
        what="at a breakpoint",
        line=4,
        source="breakpoint()",
    )
    assert engine.taken[:2] == [False, True]


def test_the_end_of_input_is_one() -> None:
    with pytest.raises(EOFError):
        Engine(EndOfInput()).lines.ask("ipdb> ")


def test_that_nobody_can_answer_is_said_in_two_lines() -> None:
    engine = Engine(NobodyAnswers(why="this kernel has no input"))
    with pytest.raises(SessionError, match="nobody can answer: this kernel has no input") as raised:
        engine.lines.ask("ipdb> ")
    shown = raised.value._render_traceback_()  # type: ignore[attr-defined]
    assert shown[1] == "   Cell In[7], line 4: breakpoint()" and len(shown) == 2


def test_a_process_that_nothing_reaches_refuses_at_once() -> None:
    engine = Engine()
    engine.lines.reachable = False
    with (
        pytest.raises(SessionError, match="nbdist has not started it"),
        engine.lines.open("at a breakpoint"),
    ):
        pass
    assert engine.published == []


def test_outside_of_a_cell_and_in_other_threads_it_refuses() -> None:
    engine = Engine()
    raised: list[BaseException] = []

    def asks() -> None:
        try:
            engine.lines.ask("ipdb> ")
        except SessionError as error:
            raised.append(error)

    thread = threading.Thread(target=asks, name="callbacks")
    thread.start()
    thread.join()
    assert "in the thread callbacks" in str(raised[0])
    engine.stands = None
    asks()
    assert "outside of a cell" in str(raised[1])


def test_an_interrupt_that_a_command_has_kept_is_raised_in_place_of_the_next_question() -> None:
    engine = Engine()
    engine.leaving = True
    with pytest.raises(Interrupt), engine.lines.open("at a breakpoint"):
        engine.lines.ask("ipdb> ")
    assert engine.published == [None]
