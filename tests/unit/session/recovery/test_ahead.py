"""Who waits for a collective in which nobody else will take part."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.asides import Count
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.cells.supervisor import InVain
from nbdist.session.recovery import recovery
from nbdist.session.recovery.recovery import waits_in_vain
from tests.builders.engines import FakeEngines, cell_step, gone, sent, trail
from tests.builders.outcomes import stands
from tests.builders.reports import running


class Counted:
    """A cell in which processes say through a thread of theirs what they have sent, those in `says` at least."""

    def __init__(
        self, says: Mapping[int, Any], steps: Mapping[int, Any], targets: Sequence[int] = (0, 1)
    ) -> None:
        self.says = dict(says)
        self.steps = {p: cell_step(counts) for p, counts in steps.items()}
        self.sent: dict[int, Any] = {0: sent(9), 1: sent(9)}  # what was said long ago
        self.asked: list[list[int]] = []
        self.targets = tuple(targets)

    def outcomes(self) -> dict[int, ProcessOutcome]:
        activity = running(source="y = f(w)")
        return {p: stands(p, activity=activity) for p in self.targets}

    def ask(self, what: Count, ids: list[int]) -> None:
        assert what == Count()
        self.asked.append(ids)
        self.sent.update({p: self.says[p] for p in ids if p in self.says})


def vain(execution: Counted, waiting: set[int], **answers: Any) -> InVain | None:
    engines = FakeEngines(**answers)
    engines.cluster.agents = SimpleNamespace(ask=execution.ask)
    return waits_in_vain(engines, execution, waiting)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recovery, "ANSWER_SECONDS", 0.02)


def test_who_sent_more_than_one_that_has_finished_waits_in_vain() -> None:
    execution = Counted({1: sent(2)}, {0: sent(1)})
    assert vain(execution, {1}) == InVain(
        "y = f(w) needs all 2 processes but process 0 left the cell without it. All processes must call the "
        "same functions on global arrays.",
        certain=True,
    )
    assert execution.asked == [[1]]


def test_who_sent_more_than_one_that_is_not_in_the_cell_waits_in_vain() -> None:
    found = vain(Counted({0: sent(1)}, {}, targets=(0,)), {0}, step=lambda p: trail(sent(0)))
    assert found is not None and found.certain
    assert found.text == (
        "y = f(w) needs all 2 processes but ran on process 0 only (--on 0). Run it without --on."
    )


def test_a_call_that_has_not_returned_counts() -> None:
    found = vain(Counted({1: sent(1, calling=True)}, {0: sent(1)}), {1})
    assert found is not None and found.certain


def test_where_all_wait_and_nothing_moves_from_one_look_to_the_next_that_is_said() -> None:
    raising = sent(1, raising="ValueError: hidden")
    execution = Counted({0: sent(2), 1: raising}, {})
    assert vain(execution, {0, 1}) is None  # the first look
    found = vain(execution, {0, 1})
    assert found is not None and not found.certain
    assert found.text.startswith("all processes wait, and nothing is computed or sent")
    assert "ValueError: hidden" in found.text
    execution.says[0] = sent(2, progress=(7, 0))
    assert vain(execution, {0, 1}) is None


def test_what_was_sent_before_all_were_last_compared_is_not_counted() -> None:
    execution = Counted({1: sent(7)}, {0: sent(6)})
    engines = FakeEngines()
    engines.in_step_at = (sent().generation, 5)
    engines.cluster.agents = SimpleNamespace(ask=execution.ask)
    assert waits_in_vain(engines, execution, {1}) is not None  # type: ignore[arg-type]
    execution = Counted({1: sent(6)}, {0: sent(6)})
    engines.cluster.agents = SimpleNamespace(ask=execution.ask)
    assert waits_in_vain(engines, execution, {1}) is None  # type: ignore[arg-type]


@pytest.mark.parametrize("counts", [(1, 1), (1, 3), (0, 0)])
def test_who_sent_as_much_or_less_may_compute_for_long(counts: tuple[int, int]) -> None:
    mine, other = counts
    assert vain(Counted({1: sent(mine)}, {0: sent(other)}), {1}) is None


def test_what_nobody_knows_is_not_concluded() -> None:
    assert vain(Counted({}, {0: sent(1)}), {1}) is None  # no answer now, whatever was said before
    assert vain(Counted({1: sent(5)}, {}), {1}, step=lambda p: None) is None
    assert vain(Counted({1: sent(5)}, {}), {1}, step=lambda p: gone()) is None
    assert vain(Counted({1: sent(5, counted=False)}, {0: sent(1)}), {1}) is None
    assert vain(Counted({1: sent(5)}, {0: sent(1, counted=False)}), {1}) is None
    assert vain(Counted({0: sent(2), 1: sent(1)}, {}), {0, 1}) is None  # none has finished


def test_a_process_that_takes_no_part_in_collectives_may_wait() -> None:
    assert vain(Counted({2: sent(5)}, {0: sent(1)}), {2}) is None
