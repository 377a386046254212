"""Digests that come past ipyparallel's requests."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.check.digests import Digests


class Processes:
    """They answer on a thread of their own; `silent` ones do not."""

    def __init__(self, *, silent: Sequence[int] = ()) -> None:
        self.silent = silent
        self.digests = Digests(self.send)
        self.questions: list[Mapping[str, Any]] = []

    def send(self, process_ids: Sequence[int], question: Mapping[str, Any]) -> None:
        self.questions.append(question)
        threading.Thread(target=self.answer, args=(process_ids, question["number"])).start()

    def answer(self, process_ids: Sequence[int], number: int) -> None:
        for process_id in process_ids:
            if process_id not in self.silent:
                topics = {"cell": f"of {process_id}"}
                self.digests.put({"process_id": process_id, "number": number, "digests": topics})


def test_all_answer_one_question() -> None:
    processes = Processes()
    found = processes.digests.ask([0, 2], "x = 1", within_s=60)
    assert found == {0: {"cell": "of 0"}, 2: {"cell": "of 2"}}
    assert [question["code"] for question in processes.questions] == ["x = 1"]


def test_where_one_is_silent_there_is_no_answer() -> None:
    assert Processes(silent=[1]).digests.ask([0, 1], "x", within_s=0.05) is None


def test_an_answer_to_an_older_question_is_none() -> None:
    processes = Processes(silent=[0, 1])
    assert processes.digests.ask([0, 1], "x", within_s=0.01) is None
    old = processes.questions[0]["number"]
    processes.send = lambda ids, question: processes.answer(ids, old)  # type: ignore[method-assign]
    processes.digests = Digests(processes.send)
    processes.silent = []
    assert processes.digests.ask([0, 1], "y", within_s=0.05) is None
