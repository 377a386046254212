"""A push or pull whose processes end, differ, are busy or were repaired meanwhile; nothing of it is kept."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest

from nbdist.engine.values.arrays import packed
from nbdist.errors import ArrayError, GoneError, OptionError, SessionError, StaleError
from nbdist.session.session import Session
from nbdist.session.values import flow
from tests.builders.live import LiveHosts, SentCell

VALUE = {"accuracy": 0.5}


@pytest.fixture
def session(live: LiveHosts, monkeypatch: pytest.MonkeyPatch) -> Session:
    structure = packed(VALUE, lambda value: None, code_by_value=False)
    live.answers |= {
        "offer": lambda p, _: {"arrays": {}, "digest": "d"},
        "structure": lambda p, _: ({}, structure),
    }
    # It is not waited for how a process has ended that a test only says has.
    monkeypatch.setattr(flow, "HOW_SECONDS", 0.0)
    made = live.session("h1", "h2")
    live.asked.clear()
    return made


def tokens(live: LiveHosts, name: str) -> set[str]:
    return {arguments["token"] for arguments in live.asked_of(name).values()}


def let_go(live: LiveHosts) -> bool:
    """Whether both processes keep nothing of what was offered, or received."""
    return sorted(live.asked_of("let_go")) == [0, 1]


def test_a_name_is_asked_of_all_and_its_value_of_one(live: LiveHosts, session: Session) -> None:
    assert session.pull("metrics") == VALUE
    assert sorted(live.asked_of("offer")) == [0, 1]
    assert sorted(live.asked_of("structure")) == [0]
    assert live.asked_of("offer")[0]["number"] is None, "a name computes nothing"
    assert let_go(live)
    assert tokens(live, "let_go") == tokens(live, "offer")


def test_of_each_its_own_is_brought(live: LiveHosts, session: Session) -> None:
    live.answers["offer"] = lambda p, _: {"arrays": {}, "digest": str(p)}
    assert session.pull("metrics", each=True) == {0: VALUE, 1: VALUE}


def test_what_is_more_than_a_name_is_evaluated_on_all_at_the_same_time(
    live: LiveHosts, session: Session
) -> None:
    assert session.pull("f(w)", on="1") == VALUE
    offers = live.asked_of("offer")
    assert sorted(offers) == [0, 1]
    assert len({arguments["number"] for arguments in offers.values()}) == 1
    assert [offers[p]["wanted"] for p in (0, 1)] == [False, True]


def test_values_that_differ_are_refused(live: LiveHosts, session: Session) -> None:
    live.answers |= {
        "offer": lambda p, _: {"arrays": {}, "digest": str(p)},
        "nodes": lambda p, _: {"nodes": [["metrics", str(p), f"{p}"]]},
    }
    with pytest.raises(ArrayError, match="metrics"):
        session.pull("metrics")
    assert live.asked_of("structure") == {}
    assert let_go(live)


@pytest.mark.parametrize("call", ["offer", "structure"])
def test_where_a_process_dies_over_it_nothing_is_kept_on_the_others(
    live: LiveHosts, session: Session, call: str
) -> None:
    live.answers[call] = lambda p, _: GoneError("process 0 (host h1) has ended.")
    with pytest.raises(GoneError, match=r"process 0 \(host h1\) has ended"):
        session.pull("metrics")
    assert let_go(live)


@pytest.mark.parametrize("repairs", [1, 2])
def test_a_name_is_asked_again_once_where_a_repair_came_between(
    live: LiveHosts, session: Session, repairs: int
) -> None:
    well, stale = live.answers["structure"], [StaleError("from before the repair")] * repairs
    live.answers["structure"] = lambda p, a: stale.pop() if stale else well(p, a)
    with contextlib.nullcontext() if repairs == 1 else pytest.raises(StaleError):
        assert session.pull("metrics") == VALUE
    offered, let_go = (
        {arguments["token"] for _, name, arguments in live.asked if name == call}
        for call in ("offer", "let_go")
    )
    assert len(offered) == 2 and let_go == offered


def test_what_computes_is_not_computed_twice_unasked(live: LiveHosts, session: Session) -> None:
    live.answers["structure"] = lambda p, _: StaleError("from before the repair")
    with pytest.raises(StaleError):
        session.pull("f(w)")
    assert len([name for _, name, _ in live.asked if name == "structure"]) == 1


def test_what_is_large_is_brought_only_where_a_person_says_so(
    live: LiveHosts, session: Session
) -> None:
    large = {"nbytes": 100, "pieces": [], "whole": True, "dtype": "float32", "shape": [25]}
    live.answers["offer"] = lambda p, _: {"arrays": {"w": large}, "digest": "d"}
    asked: list[str] = []

    def no(question: str) -> bool:
        asked.append(question)
        return False

    with pytest.raises(ArrayError, match="--yes"):
        session.pull("w", limit_bytes=99, confirm=no)
    assert asked == ["'w' is 100 B in whole. Bring it into this notebook?"]
    assert let_go(live)


@pytest.mark.parametrize(
    ("move", "line"),
    [
        (
            lambda session: session.pull("metrics"),
            "the pull of 'metrics' was interrupted; nothing in this notebook was changed.",
        ),
        (
            lambda session: session.push({"x": 1}),
            "the push of 'x' was interrupted; nothing was changed on any process.",
        ),
    ],
)
def test_an_interrupt_is_said_in_one_line(
    live: LiveHosts, session: Session, move: Any, line: str
) -> None:
    def interrupted(process_id: int, arguments: Any) -> Any:
        raise KeyboardInterrupt

    live.answers |= {"offer": interrupted, "receive": interrupted}
    with pytest.raises(KeyboardInterrupt) as raised:
        move(session)
    assert raised.value._render_traceback_() == [f"KeyboardInterrupt: {line}"]  # type: ignore[attr-defined]
    assert let_go(live)


def test_a_process_in_a_cell_gives_and_takes_nothing(live: LiveHosts, session: Session) -> None:
    live.runs = lambda cell: None
    session.run("train()", on="1", wait=False)
    with pytest.raises(SessionError, match="its values are available when that has ended"):
        session.pull("metrics")
    with pytest.raises(SessionError, match="only while no cell runs"):
        session.push({"x": 1})
    assert live.asked_of("offer") == live.asked_of("receive") == {}
    live.runs = SentCell.finish
    live.cells(1)[0].finish()


def test_a_sharding_is_for_all_processes(live: LiveHosts, session: Session) -> None:
    with pytest.raises(OptionError, match="cannot be combined with --on"):
        session.push({"x": 1}, on="1", sharding="s")
    assert live.asked == []


def test_what_cannot_be_pickled_is_refused_before_anything_is_sent(
    live: LiveHosts, session: Session
) -> None:
    with pytest.raises(ArrayError, match=r"'lines' .* cannot be sent to the processes"):
        session.push({"lines": (line for line in "ab")})
    assert live.asked_of("receive") == {}


def test_where_a_process_dies_as_it_is_reported_what_comes_the_push_is_none(
    live: LiveHosts, session: Session
) -> None:
    live.answers["receive"] = lambda p, _: GoneError(f"process {p} has ended.")
    with pytest.raises(GoneError, match="has ended"):
        session.push({"x": 1})
    assert let_go(live)
