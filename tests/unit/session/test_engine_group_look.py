"""What a person asks for right after a cell is not answered from reports of the middle of that cell."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.session import engine_group as module
from nbdist.session.engine_group import EngineGroup


class Fake:
    """What `look` uses of the engines; each process reports these states in turn, the last for ever."""

    def __init__(
        self, states: dict[int, list[str | None]], *, stuck: set[int] | None = None
    ) -> None:
        self.states: dict[int, Iterator[str | None]] = {p: iter(some) for p, some in states.items()}
        self.last: dict[int, str | None] = {}
        self.plan = SimpleNamespace(hosts=dict.fromkeys(states, "h1"))
        self.facts = SimpleNamespace(lost={}, stuck=stuck or set())
        self.asked: list[int] | None = None

    def _state(self, process_id: int) -> str | None:
        self.last[process_id] = next(self.states[process_id], self.last.get(process_id))
        return self.last[process_id]

    def _have_told(self, process_ids: list[int], *, within_s: float) -> None:
        self.asked = process_ids


def asked(fake: Any, in_cells: set[int] | None = None) -> list[int] | None:
    EngineGroup.look(fake, in_cells or set())
    found: list[int] | None = fake.asked
    return found


def test_who_has_left_its_cell_is_waited_for_until_it_reports_so() -> None:
    assert asked(Fake({0: ["idle"], 1: ["running", "running", "running", "idle"]})) == [0, 1]


def test_who_is_in_a_cell_stuck_or_silent_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 60.0)
    fake = Fake({0: ["running"], 1: ["idle"], 2: ["waiting"], 3: [None]}, stuck={2})
    assert asked(fake, {0}) == [1]


def test_one_that_others_keep_busy_is_left_out_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "IDLE_SECONDS", 0.05)
    assert asked(Fake({0: ["running"], 1: ["idle"]})) == [1]
