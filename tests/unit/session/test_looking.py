"""Looks at arrays: idle processes are asked, and while one is in a cell what was reported is shown."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.contract.calls.inspection import ProgramFound, Summary
from nbdist.contract.program import Program
from nbdist.contract.wire import encode
from nbdist.errors import ArrayError, LostArrayError, SessionError
from nbdist.session import looking
from nbdist.session.session import Session
from tests.builders.live import LiveHosts
from tests.builders.reports import MESH, named, single
from tests.waiting import wait_for


@pytest.fixture
def session(live: LiveHosts, monkeypatch: pytest.MonkeyPatch) -> Session:
    monkeypatch.setattr(looking, "REPORTED_SECONDS", 0.05)
    live.answers["shards"] = lambda p, a: {
        "expression": a["expression"],
        "arrays": [encode(named(a["expression"]))],
        "meshes": [encode(MESH)],
        "same": {},
        "omitted": 0,
        "closed": 0,
    }
    return live.session("h1", "h2")


def in_a_cell(live: LiveHosts, session: Session) -> None:
    live.runs = lambda cell: None
    session.run("train()", wait=False)


def report(live: LiveHosts, process_id: int, *arrays: Any, session: Session) -> None:
    live.holds[process_id] = arrays
    session.status()
    wait_for(lambda: {a.path for a in arrays} <= {a.path for a in session.snapshot().arrays})


def test_the_picture_of_a_lost_array_is_an_error_that_says_how_it_was_lost(
    live: LiveHosts, session: Session
) -> None:
    report(live, 0, named("w"), session=session)
    text = "v was lost with process 1 in cell 4: a shard was on no other process."
    # Of w, a cell has made another meanwhile.
    session._life.engines.lost_texts = {"v": text, "w": text}
    with pytest.raises(LostArrayError, match=text):
        session.mesh("v")
    session.mesh("w")
    session.mesh()


def test_while_a_cell_runs_what_was_reported_is_shown_and_says_so(
    live: LiveHosts, session: Session
) -> None:
    report(live, 0, named("w"), session=session)
    in_a_cell(live, session)
    live.asked.clear()
    text = session.shards("w").text()
    assert "as last reported, while process 0 (host h1) is in cell 1" in text
    assert live.asked == []
    with pytest.raises(SessionError, match="'v' was not: %dist_mesh lists what was"):
        session.shards("v")
    with pytest.raises(SessionError, match="'v' was not"):
        session.layout("v")
    for cell in live.sent:
        cell.finish()


def test_what_the_first_process_has_not_and_another_has_reported_is_shown(
    live: LiveHosts, session: Session
) -> None:
    live.answers["shards"] = lambda p, _: ArrayError("there is no array 'mine'")
    live.holds[1] = (single(1, "mine"),)
    found = session.shards("mine")
    assert "on process 0 (host h1)" in found.text()
    with pytest.raises(ArrayError, match="there is no array 'mine'"):
        session.shards("other")


def test_an_idle_process_is_asked_for_a_name_and_all_for_more_than_that(
    live: LiveHosts, session: Session
) -> None:
    live.asked.clear()
    assert "w" in session.shards("w").text()
    assert sorted(live.asked_of("shards")) == [0]
    assert "f(w)" in session.shards("f(w)").text()
    assert sorted(live.asked_of("shards")) == [0, 1]


def test_beside_a_program_are_the_arrays_that_there_are_after_the_call(
    live: LiveHosts, session: Session
) -> None:
    report(live, 0, named("w"), session=session)

    def compile_(process_id: int, _: Any) -> ProgramFound:
        live.holds[process_id] = (named("w"), named("x"))
        return ProgramFound(program=Program(name="jit_step", fits=True), digest="same")

    live.answers["program"] = compile_
    found = session.explain("step(w)").picture()._snapshot()
    assert [array.path for array in found.arrays] == ["w", "x"]


def test_values_that_are_computed_yet_or_no_more_there_are_errors(
    live: LiveHosts, session: Session
) -> None:
    live.answers["summary"] = lambda p, _: Summary(state="computing")
    with pytest.raises(ArrayError, match="w is still being computed on processes 0, 1"):
        session.values("w")
    live.answers["summary"] = lambda p, _: Summary(state="missing")
    with pytest.raises(ArrayError, match="There is no array w any more"):
        session.values("w")


def test_one_that_does_not_answer_in_time_is_said(live: LiveHosts, session: Session) -> None:
    live.answers["summary"] = lambda p, _: None
    with pytest.raises(SessionError, match="did not answer within"):
        session.values("w", timeout_s=0.01)


def test_a_picture_follows_the_session_and_old_ones_stay_as_they_are(
    live: LiveHosts, session: Session
) -> None:
    pictures = [session.mesh() for _ in range(10)]
    assert len(session._views._pictures) == 8
    assert session._views._pictures[-1] is pictures[-1]
    assert pictures[0] not in session._views._pictures
