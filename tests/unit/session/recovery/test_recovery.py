"""Lost processes of TensorFlow are replaced, and the strategy made anew on those that are needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from nbdist.errors import Notice, SessionError
from nbdist.session.recovery import recover, recovery, waiting
from tests.builders.engines import FakeEngines
from tests.builders.hosts import plan_of
from tests.builders.reports import IDLE, RUNNING


class Done:
    """What was done to the processes, in order."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[Any, ...]] = []
        monkeypatch.setattr(
            recovery, "end_processes", lambda cluster, ids: self.steps.append(("end", set(ids)))
        )
        monkeypatch.setattr(recovery, "meet_again", lambda cluster: self.steps.append(("meet",)))
        monkeypatch.setattr(recovery, "replace_processes", self._replace)
        monkeypatch.setattr(recovery, "rebuild_strategy", self._rebuild)
        monkeypatch.setattr(waiting, "BACK_SECONDS", 0.0)
        monkeypatch.setattr(waiting, "IDLE_SECONDS", 0.0)

    def _replace(self, cluster: Any, ids: Any, *, progress: Any) -> None:
        self.steps.append(("replace", set(ids)))

    def _rebuild(self, cluster: Any, replaced: Any, *, workers: bool, progress: Any) -> None:
        self.steps.append(("rebuild", workers))


@pytest.fixture
def done(monkeypatch: pytest.MonkeyPatch) -> Done:
    return Done(monkeypatch)


def engines_of(framework: str, **options: Any) -> Any:
    made: Any = FakeEngines()
    made.plan = plan_of("h1", "h2", framework=framework, **options)
    made.facts = replace(made.facts, proves=False)
    return made


def recovered(engines: Any, *, progress: Callable[..., None] = lambda *_: None) -> Notice:
    return recover(engines, progress=progress)


def test_a_lost_worker_is_replaced_and_all_make_the_strategy_anew(done: Done) -> None:
    engines = engines_of("tensorflow")
    engines.facts = replace(engines.facts, lost={1: "killed"}, since=3)
    notice = recovered(engines)
    assert done.steps == [("meet",), ("replace", {1}), ("rebuild", True)]
    assert notice.code == "repaired"
    assert notice.title.startswith(
        "Process 1 was replaced and the strategy is new on 2 workers in "
    )
    assert notice.text == "The variables of process 1 are lost. Process 0 kept their variables."
    assert notice.do == "Create your models again under the new strategy."
    assert engines.notice == notice
    assert engines.facts.lost == {}
    assert not engines.facts.out_of_step


def test_a_stuck_one_that_comes_back_keeps_its_variables(done: Done) -> None:
    engines = engines_of("tensorflow")
    engines.facts = replace(engines.facts, stuck=frozenset({1}), since=3)
    engines.monitor.reported[1] = RUNNING

    def interrupt(process_ids: Any) -> None:
        engines.interrupted.append(process_ids)
        engines.monitor.reported[1] = IDLE

    engines.interrupt = interrupt
    recovered(engines)
    assert engines.interrupted == [[1]]
    assert done.steps == [("meet",), ("rebuild", True)]


def test_one_that_does_not_come_back_is_ended_and_replaced(done: Done) -> None:
    engines = engines_of("tensorflow")
    engines.facts = replace(engines.facts, stuck=frozenset({1}), since=3)
    engines.monitor.reported[1] = RUNNING
    recovered(engines)
    assert done.steps == [("end", {1}), ("meet",), ("replace", {1}), ("rebuild", True)]


def test_one_in_a_cell_keeps_all_from_it(done: Done) -> None:
    engines = engines_of("tensorflow")
    engines.monitor.reported[1] = RUNNING
    with pytest.raises(SessionError, match="process 1 still in cell 12; interrupt it first"):
        recovered(engines)
    assert done.steps == []


def test_where_nothing_is_wrong_the_strategy_is_made_anew_since_a_person_asks(done: Done) -> None:
    notice = recovered(engines_of("tensorflow"))
    assert done.steps == [("meet",), ("rebuild", True)]
    assert notice.title.startswith("The strategy is new on 2 workers in ")
    assert notice.text == "Processes 0, 1 kept their variables."
    assert notice.do


def test_a_lost_evaluator_needs_no_new_strategy(done: Done) -> None:
    engines = engines_of("tensorflow")
    engines.facts = replace(engines.facts, workers=frozenset({0}), lost={1: "killed"})
    notice = recovered(engines)
    assert done.steps == [("replace", {1}), ("rebuild", False)]
    assert notice.title.startswith("Process 1 was replaced in ")
    assert notice.do == ""


def test_a_session_that_made_its_own_strategy_is_refused(done: Done) -> None:
    with pytest.raises(SessionError, match="you make its strategy yourself"):
        recovered(engines_of("tensorflow", initialize=False))
    assert done.steps == []


def test_what_can_neither_be_repaired_nor_replaced_says_what_to_type(done: Done) -> None:
    with pytest.raises(
        SessionError, match="there is only one, or they were not joined when they were started"
    ):
        recovered(engines_of("jax"))
    assert done.steps == []


@pytest.mark.parametrize("framework", ["jax", "tensorflow"])
def test_processes_of_others_are_neither_ended_nor_joined_anew_and_it_is_said_what_can_be_done(
    done: Done, framework: str
) -> None:
    engines = engines_of(framework)
    engines.cluster.agents.all = ()
    engines.facts = replace(engines.facts, stuck=frozenset({1}), lost={0: "killed"}, since=3)
    engines.monitor.reported[1] = RUNNING
    with pytest.raises(SessionError, match="only where they were started; %dist_pull") as raised:
        recovered(engines)
    assert "%dist_init --restart" not in str(raised.value), "it is refused here"
    assert (done.steps, engines.interrupted) == ([], [])
