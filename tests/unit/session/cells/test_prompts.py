"""The prompts of debuggers: which process is asked, by whom, what is said, and how a line gets there."""

from __future__ import annotations

import builtins
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from nbdist.contract.asides import EndOfInput, LineReply, NobodyAnswers, TypedLine
from nbdist.contract.iopub import Prompt
from nbdist.session.cells import prompts
from nbdist.session.cells.prompts import Prompts, ask_person, prompts_text
from tests.builders.clock import Clock


def prompt(number: int = 1, *, line: int = 4, source: str = "breakpoint()") -> Prompt:
    return Prompt(number=number, text="ipdb> ", what="at a breakpoint", line=line, source=source)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(prompts, "time", made)
    return made


class Cell:
    """Some processes at a prompt, and who types there."""

    def __init__(self, clock: Clock, at: Mapping[int, Prompt]) -> None:
        self.clock = clock
        self.at = dict(at)
        self.line_sent_at: float | None = None
        self.replies: list[tuple[int, int, Mapping[str, Any]]] = []
        self.shown: list[str] = []
        self.asked: list[str] = []
        self.typed: LineReply | None = TypedLine(text="p x")
        self.prompting = Prompts(
            self,
            reply=self.reply,
            show=lambda: self.shown.append("all"),
            repeat=lambda process_id, text: self.shown.append(f"{process_id} {text}"),
            ask=self.ask,
        )

    def prompts(self) -> Mapping[int, Prompt]:
        return dict(self.at)

    def wants(self, process_id: int, number: int) -> bool:
        return process_id in self.at and self.at[process_id].number == number

    def give(self, process_id: int, prompt: Prompt, send: Callable[[], bool]) -> bool:
        del self.at[process_id]
        self.line_sent_at = self.clock.now
        return send()

    def reply(self, process_id: int, number: int, reply: LineReply) -> bool:
        self.replies.append((process_id, number, reply))
        return True

    def ask(self, text: str, wanted: Callable[[], bool]) -> LineReply | None:
        assert wanted()
        self.asked.append(text)
        return self.typed

    def after(self, seconds: float) -> list[str]:
        """Who has been asked so far, when so much time has passed."""
        self.clock.now += seconds
        self.prompting.answer()
        return self.asked


def test_the_lowest_is_asked_once_others_had_time_to_come(clock: Clock) -> None:
    cell = Cell(clock, {1: prompt(11)})
    assert cell.after(0) == []
    cell.at[0] = prompt(10)
    assert cell.after(1) == ["process 0 ipdb> "]
    assert cell.replies == [(0, 10, TypedLine(text="p x"))]
    assert cell.shown == ["all", "0 ipdb> p x\n"]


def test_a_process_that_runs_a_command_is_waited_for_before_another_is_asked(clock: Clock) -> None:
    cell = Cell(clock, {0: prompt(10), 1: prompt(11)})
    cell.after(0)
    cell.after(1)
    assert cell.after(0.1) == ["process 0 ipdb> "]
    cell.line_sent_at, cell.at[0] = None, prompt(12)
    assert cell.after(0) == ["process 0 ipdb> "] * 2
    assert cell.after(5)[2:] == ["process 1 ipdb> "]


def test_what_is_no_longer_wanted_is_not_sent(clock: Clock) -> None:
    cell = Cell(clock, {0: prompt()})
    cell.typed = None
    cell.after(0)
    cell.after(1)
    assert (cell.asked, cell.replies) == (["process 0 ipdb> "], [])


def test_it_is_said_who_is_at_which_breakpoint_and_that_others_wait() -> None:
    def say(at: Mapping[int, Prompt], *, others: bool, attended: bool = True) -> str | None:
        return prompts_text(at, others=others, attended=attended)

    one, two = {1: prompt()}, {0: prompt(), 1: prompt(2)}
    where = "at a breakpoint in line 4, breakpoint()"
    assert say(one, others=True) == f"process 1   {where}; the others wait"
    assert say(one, others=False) is None
    assert say(one, others=True, attended=False) == (
        f"process 1   {where}; the others wait; %dist_debug 1 opens the prompt"
    )
    assert say(two, others=False) == (
        f"processes 0, 1   {where}; asked one after another, process 0 first; "
        "if jax.process_index() == 0: breakpoint() stops that one alone"
    )


# -- the person ----------------------------------------------------------------------------------


@pytest.fixture
def types(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Any], None]]:
    def put(answer: Any) -> None:
        def read(prompt: str) -> str:
            if isinstance(answer, BaseException):
                raise answer
            return str(answer(prompt) if callable(answer) else answer)

        monkeypatch.setattr(builtins, "input", read)

    yield put


def test_a_line_is_what_was_typed(types: Callable[[Any], None]) -> None:
    types(lambda text: f"after {text}")
    assert ask_person("ipdb> ", lambda: True) == TypedLine(text="after ipdb> ")


def test_a_kernel_without_input_says_so(types: Callable[[Any], None]) -> None:
    types(NotImplementedError("this frontend does not support input requests."))
    reply = ask_person("ipdb> ", lambda: True)
    assert reply == NobodyAnswers(
        why="this kernel has no input (this frontend does not support input requests.)"
    )


def test_the_end_of_input_is_one(types: Callable[[Any], None]) -> None:
    types(EOFError())
    assert ask_person("ipdb> ", lambda: True) == EndOfInput()


def test_nobody_is_asked_any_longer_when_the_process_has_gone(
    types: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "LOOK_SECONDS", 0.01)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        types(lambda text: time.sleep(60))
        assert ask_person("ipdb> ", lambda: False) is None
    finally:
        signal.signal(signal.SIGINT, before)


def test_the_stop_button_is_the_persons_own(types: Callable[[Any], None]) -> None:
    types(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        ask_person("ipdb> ", lambda: True)


def test_a_cell_that_is_waited_for_in_a_thread_asks_nobody(types: Callable[[Any], None]) -> None:
    types("typed")
    found: list[Any] = []
    thread = threading.Thread(target=lambda: found.append(ask_person("ipdb> ", lambda: True)))
    thread.start()
    thread.join()
    assert "main thread" in found[0].why


def test_an_interrupt_that_is_sent_when_the_line_is_there_hits_nothing_else(
    types: Callable[[Any], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prompts, "LOOK_SECONDS", 0.0)
    sent = threading.Event()
    kill = signal.pthread_kill

    def late(thread: int, number: int) -> None:
        sent.set()
        threading.Timer(0.2, kill, (thread, number)).start()

    monkeypatch.setattr(signal, "pthread_kill", late)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        types(lambda text: sent.wait(60))
        assert ask_person("ipdb> ", lambda: False) is None
    finally:
        signal.signal(signal.SIGINT, before)
