"""Questions that processes answer past their main threads."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from nbdist.contract.asides import Aside, CompareBefore, Digests, LineTaken
from nbdist.contract.iopub import AsideAnswer
from nbdist.session.reports import Asking


class Processes:
    """They answer on a thread of their own; `silent` ones do not."""

    def __init__(self, *, silent: Sequence[int] = ()) -> None:
        self.silent = silent
        self.asking = Asking(self.send)
        self.questions: list[tuple[Aside[Any], int]] = []

    def send(self, aside: Aside[Any], process_ids: Sequence[int], number: int) -> None:
        self.questions.append((aside, number))
        threading.Thread(target=self.answer, args=(process_ids, number)).start()

    def answer(self, process_ids: Sequence[int], number: int) -> None:
        for process_id in process_ids:
            if process_id not in self.silent:
                self.asking.put(
                    AsideAnswer(process_id=process_id, number=number, answer=said(process_id))
                )

    def ask(self, *process_ids: int, within_s: float) -> dict[int, Digests]:
        return self.asking.ask(CompareBefore(code="x = 1"), process_ids, within_s=within_s)


def said(process_id: int) -> Digests:
    return Digests(digests={"cell": f"of {process_id}"})


def test_all_answer_one_question() -> None:
    processes = Processes()
    assert processes.ask(0, 2, within_s=60) == {0: said(0), 2: said(2)}
    assert [aside for aside, _ in processes.questions] == [CompareBefore(code="x = 1")]


def test_who_is_silent_is_not_in_the_answer() -> None:
    processes = Processes(silent=[1])
    while 0 not in (found := processes.ask(0, 1, within_s=0.05)):
        pass
    assert found == {0: said(0)}


def test_an_answer_to_an_older_question_is_none() -> None:
    processes = Processes(silent=[0, 1])
    assert processes.ask(0, 1, within_s=0.01) == {}
    _, old = processes.questions[0]
    processes.send = lambda aside, ids, number: processes.answer(ids, old)  # type: ignore[method-assign]
    processes.asking = Asking(processes.send)
    processes.silent = []
    assert processes.ask(0, 1, within_s=0.05) == {}


def test_an_answer_to_another_kind_of_question_is_left_out() -> None:
    processes = Processes()

    def send(aside: Aside[Any], process_ids: Sequence[int], number: int) -> None:
        taken = LineTaken(taken=True)
        processes.asking.put(AsideAnswer(process_id=0, number=number, answer=taken))
        processes.asking.put(AsideAnswer(process_id=1, number=number, answer=said(1)))

    processes.asking = Asking(send)
    assert processes.ask(0, 1, within_s=60) == {1: said(1)}
