"""The cells of a session: what is seen to before one is sent."""

from __future__ import annotations

import contextlib
import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.cells import Doubt
from nbdist.errors import ProcessError, SessionError
from nbdist.launch.model.start_options import Rules
from nbdist.session import running
from nbdist.session.cells.doubt import because
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.cells.followed import FollowedRun
from nbdist.session.cells.history import History, read_history
from nbdist.session.running import Cells
from tests.builders.engines import FakeEngines
from tests.builders.outcomes import stands

COPIED = Doubt(kind="copied", of=0)


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
        engines.health.note(
            ProcessFacts.found_out_of_step, 4, "JAX's coordination service has ended"
        )
        return frozenset()

    def repaired(of: Any, *, automatic: bool) -> str:
        engines.lost_service = None
        engines.health.recovered("in step again")
        return "in step again"

    monkeypatch.setattr(running, "replaceable", reported_now)
    monkeypatch.setattr(running, "ensure_in_step", repaired)
    if recover:
        assert cells.bring_in_step("step()") == "in step again"
        assert not engines.facts.out_of_step
    else:
        engines.health.note(
            ProcessFacts.found_out_of_step, 4, "JAX's coordination service has ended"
        )
        with pytest.raises(SessionError, match="coordination service has ended"):
            cells.bring_in_step("step()")


def test_doubt_outlives_the_kernel(tmp_path: Path) -> None:
    engines: Any = FakeEngines()
    Cells(engines, Alone(), rules=Rules(), history=History(tmp_path))  # type: ignore[arg-type]
    older = Doubt(kind="older", of=4)
    engines.health.recovered("done", unsure={"x": COPIED, "y": COPIED, "z": older})
    engines.health.sure_of({"y"})
    known = read_history(tmp_path)
    assert known.unsure == {"x": COPIED, "z": older}
    again: Any = FakeEngines()
    again.health.note(
        ProcessFacts.regained, since=known.since, stuck=known.stuck, unsure=known.unsure
    )
    assert again.facts.unsure == known.unsure


def test_what_is_lost_is_not_said_to_differ_as_well() -> None:
    engines: Any = FakeEngines()
    cells = Cells(engines, Alone(), rules=Rules(), history=History())  # type: ignore[arg-type]
    engines.reports = SimpleNamespace(renew=lambda process_ids, *, within_s: None)
    engines.monitor.samples = lambda p: {4: {}, 5: {"y": "an array", "k": "7"} if p else {}}
    end: Any = SimpleNamespace(number=5)
    assert cells._apart(end, lost=("y",)) == ("k",)
    assert cells._apart(end, lost=("y", "k")) == ()


@pytest.mark.parametrize(("before", "again"), [({}, False), ({"x": COPIED}, True)])
def test_a_refusal_says_what_was_done_and_why_names_are_in_doubt_once(
    before: dict[str, Doubt], again: bool
) -> None:
    engines: Any = FakeEngines()
    engines.choice = SimpleNamespace(able=lambda: ())
    cells = Cells(engines, Alone(), rules=Rules(), history=History())  # type: ignore[arg-type]
    engines.health.recovered("done", unsure={"x": COPIED})
    with pytest.raises(SessionError) as e:
        cells.refuse_unsure("f(x)", "It was repaired.\nx was copied.", before=before)
    notice = e.value.notice
    assert notice.code == "in doubt"
    ((why, do),) = because({"x": COPIED})
    assert notice.text == " ".join(["It was repaired. x was copied.", *([why] if again else [])])
    assert notice.do.startswith(do) is again
    # It has been said, and is not in doubt any more.
    assert cells.refuse_unsure("f(x)") is None


@pytest.mark.parametrize(("outcome", "raises"), [("interrupted", False), ("raised", True)])
def test_sync_says_nothing_of_a_cell_that_somebody_has_interrupted(
    monkeypatch: pytest.MonkeyPatch, outcome: Any, raises: bool
) -> None:
    """Whether such a cell has ended before the wait begins, or in it, is chance."""
    engines: Any = FakeEngines()
    cells = Cells(engines, Alone(), rules=Rules(), history=History())  # type: ignore[arg-type]
    run = FollowedRun.__new__(FollowedRun)
    error = ProcessError("process 0 ended", (stands(0, outcome),))
    run._error, run._over = error, threading.Event()
    cells.background = SimpleNamespace(runs=(run,), unseen=lambda: ())  # type: ignore[assignment]
    monkeypatch.setattr(cells, "wait_for_ends", lambda: None)
    monkeypatch.setattr(running, "_wait_until_idle", lambda *_, **__: run._over.set())
    with pytest.raises(ProcessError) if raises else contextlib.nullcontext():
        cells.sync(timeout_s=None)


def test_sync_waits_for_the_last_output_of_a_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    engines: Any = FakeEngines()
    cells = Cells(engines, Alone(), rules=Rules(), history=History())  # type: ignore[arg-type]
    run = FollowedRun.__new__(FollowedRun)
    error = ProcessError("process 0 ended", (stands(0, "raised"),))
    run._error, run._over = error, threading.Event()
    run.cell = SimpleNamespace(number=3)  # type: ignore[assignment]
    cells.background = SimpleNamespace(runs=(run,), unseen=lambda: ())  # type: ignore[assignment]
    monkeypatch.setattr(cells, "wait_for_ends", lambda: None)
    monkeypatch.setattr(running, "_wait_until_idle", lambda *_, **__: None)
    with pytest.raises(TimeoutError, match=r"cell 3 still runs after 0\.01 s"):
        cells.sync(timeout_s=0.01)
    threading.Timer(0.1, run._over.set).start()
    with pytest.raises(ProcessError):
        cells.sync(timeout_s=None)
