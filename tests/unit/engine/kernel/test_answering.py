"""Questions that an engine answers past its main thread, and what they do to it."""

from __future__ import annotations

import os
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.asides import Cut, Free, Repeat
from nbdist.contract.iopub import Kept
from nbdist.engine.kernel.answering import Answering
from nbdist.engine.kernel.resident import Publisher
from tests.waiting import WAIT_SECONDS, wait_for


def test_a_question_that_could_not_be_answered_is_not_the_last_one() -> None:
    asked, ask = os.pipe()
    answers: list[str] = []

    def send(publisher: object, kind: str, **options: Any) -> None:
        answers.append(kind)
        if len(answers) == 1:
            raise RuntimeError("the socket is busy")

    kernel = SimpleNamespace(session=SimpleNamespace(send=send), iopub_socket=None)
    resident: Any = SimpleNamespace(
        probe=None,
        step=None,
        process_id=0,
        echo=SimpleNamespace(of=lambda: Kept(messages=(), lost={})),
        publisher=Publisher(kernel, lambda: 0),
    )
    thread = threading.Thread(target=Answering(resident, None).until_end, args=(asked,))
    thread.start()
    for count in (1, 2):
        os.write(ask, Repeat.LETTER.encode())
        wait_for(lambda count=count: len(answers) == count)  # type: ignore[misc]
    os.close(ask)
    thread.join(WAIT_SECONDS)
    assert not thread.is_alive()
    os.close(asked)


@pytest.mark.parametrize(
    ("asked", "leaving", "waits", "in_threading", "cuts"),
    [
        (Cut, True, False, False, 1),
        (Free, False, True, False, 1),
        (Free, False, None, False, 1),  # where the system does not say
        (Free, False, False, False, 0),
        (Free, False, True, True, 0),
        (Free, True, True, False, 0),
    ],
)
def test_what_a_signal_reaches_is_not_cut_but_for_a_repair(
    asked: type[Cut | Free], leaving: bool, waits: bool | None, in_threading: bool, cuts: int
) -> None:
    cut: list[bool] = []
    resident: Any = SimpleNamespace(
        step=SimpleNamespace(cut=lambda: cut.append(True)),
        interrupts=SimpleNamespace(leaving=leaving),
        publisher=None,
    )
    answering = Answering(resident, None)
    answering._main_thread = SimpleNamespace(  # type: ignore[assignment]
        waits_for_a_thread=lambda: waits, waits_in_threading=lambda: in_threading
    )
    answering.do({asked})
    assert len(cut) == cuts
