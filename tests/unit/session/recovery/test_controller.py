"""the controller of ipyparallel has ended: another is started, and what the processes do then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.asides import Abandon, Free
from nbdist.errors import LaunchError, RecoveryError
from nbdist.launch.model.happenings import CONTROLLER
from nbdist.session import recovery
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.recovery import in_place, repair
from nbdist.session.recovery.in_place import Settled
from tests.builders.engines import FakeEngines
from tests.builders.outcomes import ended
from tests.builders.reports import IDLE, RUNNING

END = ended(-1, because_of=CONTROLLER)
KILLED = "the controller of ipyparallel has ended (killed by signal 9 (SIGKILL))"


class Engines(FakeEngines):
    """Processes whose controller has ended; `silent` do not answer through another."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **answers: Any) -> None:
        super().__init__(**answers)
        self.lost_controller = END
        self.started, self.saved, self.silent = 0, False, set[int]()
        self.facts = replace(self.facts, lost={0: "out of reach", 1: "out of reach"}, since=4)
        monkeypatch.setattr(repair, "restart_controller", self.restart)
        monkeypatch.setattr(repair, "unanswered", self.unanswered)

    def restart(self, cluster: Any) -> None:
        self.started += 1

    def unanswered(self, cluster: Any, idle: Collection[int], *, within_s: float) -> set[int]:
        return self.silent & set(idle)

    def reconnected(self) -> None:
        self.lost_controller = None
        self.health.note(ProcessFacts.reachable, {})

    def cut_off(self) -> None:
        self.saved = True
        self.health.note(ProcessFacts.without_controller)

    def interrupt(self, process_ids: Any) -> None:
        super().interrupt(process_ids)
        self.monitor.reported.update(dict.fromkeys(self.obeys.intersection(process_ids), IDLE))


@pytest.fixture
def engines(monkeypatch: pytest.MonkeyPatch) -> Engines:
    return Engines(monkeypatch)


def settled(engines: Any, lines: list[str], *, automatic: bool = True) -> Settled:
    return in_place.InPlace(engines).prove(automatic=automatic, say=lines.append)


def test_another_takes_its_place_and_the_processes_are_in_step(engines: Engines) -> None:
    lines: list[str] = []
    assert settled(engines, lines) == Settled()
    (line,) = lines
    assert line.startswith(f"{KILLED}; another took its place after ")
    assert (engines.started, engines.facts.lost, engines.interrupted) == (1, {}, [])
    assert engines.names() == ["step", "prove", "versions"]
    assert settled(engines, lines) == Settled()
    assert engines.started == 1


def test_none_is_started_where_nothing_may_be_done_without_being_asked(engines: Engines) -> None:
    done = settled(engines, [], automatic=False)
    assert done == Settled(why=done.why) and "controller" in str(done.why)
    assert engines.started == 0


def test_those_in_a_cell_are_interrupted(engines: Engines) -> None:
    engines.monitor.reported[1] = RUNNING
    assert settled(engines, []) == Settled()
    assert engines.interrupted == [[1]]


def test_those_that_do_not_come_back_are_freed_and_then_stuck(
    engines: Engines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repair, "BACK_SECONDS", 0.2)
    monkeypatch.setattr(repair, "AGAIN_SECONDS", 0.0)
    engines.monitor.reported[1] = RUNNING
    engines.obeys.clear()
    assert "process 1" in str(settled(engines, []).why)
    assert engines.facts.stuck == {1}
    assert {(Free(), 1), (Abandon(), 1)} <= {(what, *ids) for what, ids in engines.asides}


@pytest.mark.parametrize("alone", [False, True])
def test_what_the_processes_hold_is_saved_where_none_can_be_started(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, alone: bool
) -> None:
    def fails(cluster: Any) -> None:
        raise LaunchError("started again, it ended with exit code 1: no port")

    monkeypatch.setattr(repair, "restart_controller", fails)
    engines.facts = replace(engines.facts, proves=not alone)
    with pytest.raises(RecoveryError, match="it ended with exit code 1: no port") as raised:
        recovery.recover(engines, progress=print)  # type: ignore[arg-type]
    assert ("nbdist-rescued" in str(raised.value)) != alone
    assert engines.saved


def test_one_through_which_a_process_does_not_answer_is_none(engines: Engines) -> None:
    engines.silent = {1}
    assert settled(engines, []).why == (
        "the controller of ipyparallel has ended, and process 1 did not answer when it was started again"
    )
    assert engines.saved


@pytest.mark.parametrize(("ends", "why"), [(1, None), (9, "each of 3 that were started")])
def test_one_that_ends_as_well_is_replaced_and_not_for_ever(
    engines: Engines, monkeypatch: pytest.MonkeyPatch, ends: int, why: str | None
) -> None:
    def end_again(cluster: Any, idle: Collection[int], *, within_s: float) -> set[int]:
        if engines.started <= ends:
            engines.lost_controller = END
        return set()

    monkeypatch.setattr(repair, "unanswered", end_again)
    done = settled(engines, [])
    assert engines.started == min(ends + 1, 3)
    assert (done.why is None) if why is None else (why in str(done.why))
    assert engines.saved == (why is not None)


def test_a_person_who_asks_reads_what_was_done(engines: Engines) -> None:
    engines.facts = replace(engines.facts, proves=False, since=None)
    notice = recovery.recover(engines, progress=print)  # type: ignore[arg-type]
    assert notice.code == "in step"
    assert notice.title.lower().startswith(KILLED.lower())
    assert notice.details == ()
    assert engines.notice == notice  # type: ignore[attr-defined]


def test_processes_that_cannot_prove_that_they_are_in_step_go_on(engines: Engines) -> None:
    engines.facts = replace(engines.facts, proves=False)
    assert recovery.restore_controller(engines).startswith(KILLED)  # type: ignore[arg-type]
    assert engines.asked == []
