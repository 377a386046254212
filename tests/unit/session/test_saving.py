"""A save or restore as the kernel sees it: asked of all workers at once, and named on all of them or on none."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.errors import ArrayError, GoneError, OptionError, SessionError
from nbdist.session.session import Session
from nbdist.session.values import flow
from tests.builders.live import LiveHosts

FOUND = {
    "path": "/shared/it",
    "names": [
        {"name": "w", "arrays": 1, "nbytes": 2048, "how": ""},
        {"name": "b", "arrays": 2, "nbytes": 1024, "how": ""},
    ],
    "left_out": ["own: each process has its own; give its name to save it"],
}
READ = FOUND | {
    "names": [one | {"how": "as it lay before"} for one in FOUND["names"]],
    "left_out": [],
}


@pytest.fixture
def session(live: LiveHosts, monkeypatch: pytest.MonkeyPatch) -> Session:
    live.answers |= {
        "save_arrays": lambda p, _: FOUND,
        "read_arrays": lambda p, _: READ,
        "set_restored": lambda p, _: {"names": ["w", "b"]},
    }
    # It is not waited for how a process has ended that a test only says has.
    monkeypatch.setattr(flow, "HOW_SECONDS", 0.0)
    made = live.session("h1", "h2")
    live.asked.clear()
    return made


def test_a_save_is_one_call_of_all_workers_and_says_what_was_left_out(
    live: LiveHosts, session: Session
) -> None:
    saved = session.save("/shared/it")
    asked = live.asked_of("save_arrays")
    assert sorted(asked) == [0, 1]
    assert len({(one["token"], one["number"]) for one in asked.values()}) == 1
    assert (saved.names, saved.nbytes, saved.how) == (("w", "b"), 3072, {})
    assert str(saved).splitlines() == [
        "w, b (3 KB) saved in /shared/it",
        "1 name left out:",
        "  own: each process has its own; give its name to save it",
    ]


def test_a_restore_gives_names_when_all_have_read(live: LiveHosts, session: Session) -> None:
    restored = session.restore("/shared/it", ["w", "b", "w"])
    assert live.asked_of("read_arrays")[0]["names"] == ["w", "b"]
    assert sorted(live.asked_of("set_restored")) == [0, 1]
    tokens = {
        one["token"]
        for name in ("read_arrays", "set_restored", "let_go")
        for one in live.asked_of(name).values()
    }
    assert len(tokens) == 1
    assert str(restored).splitlines() == [
        "w, b (3 KB) restored from /shared/it",
        "  w, b: as it lay before",
    ]


@pytest.mark.parametrize("error", [GoneError("process 1 has ended."), ArrayError("does not fit")])
def test_where_one_cannot_read_no_name_is_given_and_nothing_is_kept(
    live: LiveHosts, session: Session, error: Exception
) -> None:
    live.answers["read_arrays"] = lambda p, _: error if p == 1 else READ
    with pytest.raises(type(error), match=str(error)):
        session.restore("/shared/it")
    assert live.asked_of("set_restored") == {}
    assert sorted(live.asked_of("let_go")) == [0, 1]


@pytest.mark.parametrize(
    ("path", "names", "said"),
    [
        ("", (), "PATH is empty"),
        ("/it", "w", r"give a list of names: \['w'\]"),
        ("/it", ("w['a']",), r"\"w\['a'\]\" is no name"),
    ],
)
@pytest.mark.parametrize("what", ["save", "restore"])
def test_what_cannot_be_meant_is_sent_to_nobody(
    live: LiveHosts, session: Session, what: str, path: str, names: Any, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        getattr(session, what)(path, names)
    assert live.asked == []


def test_out_of_step_nothing_is_written(live: LiveHosts, session: Session) -> None:
    session._life.engines.health.stuck([1])
    with pytest.raises(SessionError, match="not been in step"):
        session.save("run7")
    assert live.asked_of("save_arrays") == {}
