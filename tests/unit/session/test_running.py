"""The cells of a session: what is seen to before one is sent."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from nbdist.cells.history import History, read
from nbdist.errors import SessionError
from nbdist.rules import Rules
from nbdist.session import running
from nbdist.session.running import Cells
from tests.builders.engines import FakeEngines


class Alone:
    """Nobody has computed alone."""

    def computed(self) -> bool:
        return False


@pytest.mark.parametrize("recover", [True, False])
def test_an_end_that_is_reported_while_it_is_looked_for_is_seen_to_before_the_cell(
    monkeypatch: pytest.MonkeyPatch, recover: bool
) -> None:
    engines: Any = FakeEngines()
    cells = Cells(engines, Alone(), rules=Rules(recover=recover), history=History())  # type: ignore[arg-type]

    def reported_now(of: Any) -> frozenset[int]:
        engines.lost_service = "its end"
        engines.health.out_of_step(4, "JAX's coordination service has ended")
        return frozenset()

    def repaired(of: Any, *, automatic: bool) -> str:
        engines.lost_service = None
        engines.health.recovered("in step again")
        return "in step again"

    monkeypatch.setattr(running, "replaceable", reported_now)
    monkeypatch.setattr(running, "make_sure", repaired)
    if recover:
        assert cells.brought_in_step("step()") == "in step again"
        assert not engines.facts.out_of_step
    else:
        engines.health.out_of_step(4, "JAX's coordination service has ended")
        with pytest.raises(SessionError, match="coordination service has ended"):
            cells.brought_in_step("step()")


def test_doubt_outlives_the_kernel(tmp_path: Path) -> None:
    engines: Any = FakeEngines()
    Cells(engines, Alone(), rules=Rules(), history=History(tmp_path))  # type: ignore[arg-type]
    engines.health.recovered("done", unsure={"x": "copied from process 0", "y": "copied"})
    engines.health.sure_of({"y"})
    known = read(tmp_path)
    assert known.unsure == {"x": "copied from process 0"}
    again: Any = FakeEngines()
    again.health.regain(since=known.since, stuck=known.stuck, unsure=known.unsure)
    assert again.facts.unsure == known.unsure
