"""Asking processes that may end while they are asked."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.errors import GoneError
from nbdist.session.engine_group import EngineGroup


class Ended:
    """The answer of a process that has died over the question."""

    def ready(self) -> bool:
        return True

    def wait(self, timeout_s: float) -> None:
        pass

    def get(self, timeout_s: float | None = None) -> Any:
        raise GoneError("process 1 (host h1): EngineError: Engine 1 died while running task 'x'")


class Well(Ended):
    def get(self, timeout_s: float | None = None) -> Any:
        return {"sequence": 7}, []


def engines() -> Any:
    """A engines of two, of which the second dies when it is asked."""
    made: Any = EngineGroup.__new__(EngineGroup)
    made.heard = {}
    made.asked_alone = []
    made.send = lambda process_id, name, **arguments: Well() if process_id == 0 else Ended()
    made.monitor = SimpleNamespace(
        wait_for=lambda sequences, timeout_s: made.heard.update(sequences),
        activity=lambda process_id: SimpleNamespace(state="idle"),
    )
    made.plan = SimpleNamespace(hosts={1: "h1"})
    made.facts = SimpleNamespace(lost={}, stuck=frozenset())
    return made


def test_a_process_that_dies_while_it_is_asked_what_it_holds_is_no_error_of_the_question() -> None:
    made = engines()
    made._have_told([0, 1], within_s=1.0)
    assert made.heard == {0: 7}


def test_nor_is_it_where_any_idle_process_may_answer() -> None:
    assert engines().ask_idle("complete", timeout_s=1.0) is None


class Busy(Well):
    """One in a cell: it answers when that has ended."""

    def ready(self) -> bool:
        return False


def test_of_changed_modules_those_that_are_busy_are_named_and_those_that_end_are_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nbdist.session.engine_group.IMPORTED_SECONDS", 0.0)
    asked: list[tuple[int, Any]] = []

    def send(process_id: int, name: str, *, paths: list[str]) -> Any:
        asked.append((process_id, paths))
        if process_id == 3:
            return Ended()
        request = Busy() if process_id == 2 else Well()
        request.get = lambda timeout_s=None: ({"modules": ["steps"]}, [])
        return request

    made = engines()
    made.send = send
    made.choice = SimpleNamespace(able=lambda: [0, 1, 2, 3])
    made.link = SimpleNamespace(agents=SimpleNamespace(place=lambda process_id: None))
    files: Any = SimpleNamespace(path=lambda name, folder: f"/here/{name}")
    assert made._imported(files, ["steps.py"]) == ({"steps": (0, 1)}, (2,))
    assert asked == [(p, ["/here/steps.py"]) for p in (0, 1, 2, 3)]
