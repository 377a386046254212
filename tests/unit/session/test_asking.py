"""Questions that processes answer past their main threads."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.contract.asides import Aside
from nbdist.session.asking import Asking


class Processes:
    """They answer on a thread of their own; `silent` ones do not."""

    def __init__(self, *, silent: Sequence[int] = ()) -> None:
        self.silent = silent
        self.asking = Asking(self.send)
        self.questions: list[Mapping[str, Any]] = []

    def send(self, what: Aside, process_ids: Sequence[int], question: Mapping[str, Any]) -> None:
        assert what is Aside.COMPARE
        self.questions.append(question)
        threading.Thread(target=self.answer, args=(process_ids, question["number"])).start()

    def answer(self, process_ids: Sequence[int], number: int) -> None:
        for process_id in process_ids:
            if process_id not in self.silent:
                said = {"cell": f"of {process_id}"}
                self.asking.put({"process_id": process_id, "number": number, "answer": said})

    def ask(self, *process_ids: int, within_s: float) -> dict[int, dict[str, Any]]:
        return self.asking.ask(Aside.COMPARE, process_ids, within_s=within_s, code="x = 1")


def test_all_answer_one_question() -> None:
    processes = Processes()
    assert processes.ask(0, 2, within_s=60) == {0: {"cell": "of 0"}, 2: {"cell": "of 2"}}
    assert [question["code"] for question in processes.questions] == ["x = 1"]


def test_who_is_silent_is_not_in_the_answer() -> None:
    processes = Processes(silent=[1])
    while 0 not in (found := processes.ask(0, 1, within_s=0.05)):
        pass
    assert found == {0: {"cell": "of 0"}}


def test_an_answer_to_an_older_question_is_none() -> None:
    processes = Processes(silent=[0, 1])
    assert processes.ask(0, 1, within_s=0.01) == {}
    old = processes.questions[0]["number"]
    processes.send = lambda what, ids, question: processes.answer(ids, old)  # type: ignore[method-assign]
    processes.asking = Asking(processes.send)
    processes.silent = []
    assert processes.ask(0, 1, within_s=0.05) == {}
