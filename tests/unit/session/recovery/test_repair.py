"""A repair from its first message to its last, on processes that are not there."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec import structs

from nbdist.contract.calls.stepping import (
    NOT_SENT,
    Labels,
    Proven,
    Restored,
    SavedForRepair,
    Versions,
)
from nbdist.errors import Notice, ProcessError, RecoveryError
from nbdist.session.cells.facts import LifeState
from nbdist.session.session import Session
from tests.builders.engines import sent, trail
from tests.builders.live import LiveHosts, SentCell

ORIGINS = Versions(versions={}, reasons={}, unnamed=(), generation=1)
SAVED = SavedForRepair(arrays=0, nbytes=0, on_disk=0, free=0, versions=ORIGINS)
CALLS = ["step", "labels", "save", "leave", "rejoin", "restore", "meet", "prove"]


@pytest.fixture
def session(live: LiveHosts) -> Session:
    """Of two processes, of which the second has sent a program more; a repair would bring them in step."""
    counts = {0: 2, 1: 3}

    def restore(process_id: int, arguments: dict[str, Any]) -> Restored:
        counts[process_id] = 0
        return Restored(
            references=0, arrays=0, lost=(), stale=(), seconds=0.0, ports=(9000 + process_id,)
        )

    live.answers |= {
        "step": lambda p, _: trail(sent(counts[p])),
        "labels": lambda p, _: Labels(
            labels=("f() 1",) * counts[p], kinds=(None,) * counts[p], given=("",) * counts[p]
        ),
        "save": lambda p, _: SAVED,
        "leave": lambda p, _: {},
        "rejoin": lambda p, _: {},
        "restore": restore,
        "name_lost": lambda p, _: {},
    }
    made = live.session("h1", "h2")
    live.asked.clear()
    return made


def fails(live: LiveHosts, session: Session, code: str = "f()") -> ProcessError:
    live.runs = lambda cell: cell.fail("ValueError", "no") if cell.process_id else cell.finish()
    with pytest.raises(ProcessError) as raised:
        session.run(code)
    live.runs = SentCell.finish
    return raised.value


def repaired(session: Session) -> Notice:
    """What was done after the last cell."""
    notice = session._life.engines.facts.notice
    assert notice is not None
    return notice


def order(live: LiveHosts) -> list[str]:
    return list(dict.fromkeys(name for _, name, _ in live.asked))


def test_after_a_failure_they_are_in_step_again_and_the_next_cell_runs(
    live: LiveHosts, session: Session
) -> None:
    fails(live, session)
    assert order(live) == [*CALLS, "look"]
    assert not session.out_of_step
    notice = repaired(session)
    assert (notice.code, notice.lost, notice.do) == ("raised", (), "")
    assert notice.text.startswith("The session was repaired in ")
    # All meet at a new service, and each knows the new ports of the other.
    where = {
        arguments["arguments"]["coordinator_address"]
        for arguments in live.asked_of("rejoin").values()
    }
    assert len(where) == 1
    assert live.asked_of("meet") == {0: {"ports": [9001]}, 1: {"ports": [9000]}}
    session.run("total = step(x)")


def test_what_only_one_has_of_an_array_is_lost_on_both_and_named(
    live: LiveHosts, session: Session
) -> None:
    live.answers["save"] = lambda p, _: structs.replace(
        SAVED, versions=structs.replace(ORIGINS, versions={"w": (0, p, "0"), "b": (0, 1, "0")})
    )
    fails(live, session)
    assert {p: a["lost"] for p, a in live.asked_of("restore").items()} == {0: ["w"], 1: ["w"]}
    assert repaired(session).lost == ("w",)
    assert live.asked_of("name_lost").keys() == {0, 1}
    texts = {p: a["texts"]["w"] for p, a in live.asked_of("name_lost").items()}
    assert texts[0] == texts[1] and texts[0].startswith("w was lost in cell ")


def test_what_a_cell_assigns_again_is_not_lost_any_more(live: LiveHosts, session: Session) -> None:
    engines = session._life.engines
    engines.lost_texts = {"w": "w was lost", "params['a']": "it was lost", "y": "y was lost"}
    session.run("for k in range(3):\n    w = step(w)\nparams = init()")
    assert engines.lost_texts.keys() == {"y"}


def test_what_the_cell_that_assigns_it_loses_stays_lost(live: LiveHosts, session: Session) -> None:
    versions = structs.replace(ORIGINS, versions={"w": (0, 1, "0")})
    live.answers["save"] = lambda p, _: structs.replace(SAVED, versions=versions if p else ORIGINS)
    live.answers["restore"] = lambda p, _: Restored(
        references=0, arrays=0, lost=("w",), stale=(), seconds=0.0, ports=(9000 + p,)
    )
    notice = fails(live, session, "w = step(w)").notice
    assert notice.lost == ("w",)
    engines = session._life.engines
    assert engines.lost_texts.keys() == {"w"}
    number = engines.facts.last_cell
    assert notice.do == f"Create w again: cell {number} assigns it.", (
        "the cell that has just failed"
    )
    assert engines.lost_texts["w"].endswith(notice.do)


def test_why_values_could_not_be_read_is_said_but_for_what_all_wait_for(
    live: LiveHosts, session: Session
) -> None:
    reasons = {"w": "no memory is left", "v": NOT_SENT}
    unread = structs.replace(ORIGINS, versions=dict.fromkeys(reasons), reasons=reasons)
    live.answers["save"] = lambda p, _: structs.replace(SAVED, versions=unread) if p else SAVED
    fails(live, session)
    notice = repaired(session)
    assert notice.lost == ("v", "w")
    assert [line for line in notice.details if line.startswith(("v", "w"))] == [
        "w: its values could not be read on process 1 (host h2): no memory is left"
    ]


@pytest.mark.parametrize("call", ["save", "leave", "rejoin", "restore"])
def test_one_that_fails_in_the_middle_leaves_them_out_of_step_and_may_be_tried_again(
    live: LiveHosts, session: Session, call: str
) -> None:
    well = live.answers[call]
    live.answers[call] = lambda p, a: RecoveryError("no memory is left") if p else well(p, a)
    fails(live, session)
    assert session.out_of_step
    facts = session._life.engines.facts
    assert "the repair failed: process 1 (host h2): no memory is left" in str(facts.why)
    assert session._life.engines.health.facts.state is LifeState.RUNNING
    live.answers[call] = well
    assert session.recover().code == "repaired"
    assert not session.out_of_step


def test_a_proof_that_does_not_pass_at_its_end_is_no_repair(
    live: LiveHosts, session: Session
) -> None:
    live.answers["prove"] = lambda p, _: Proven(passed=False, alike=True, error="x")
    fails(live, session)
    assert "the processes are not in step after the repair" in str(session._life.engines.facts.why)


def test_where_memory_is_short_it_is_said_that_it_takes_longer(
    live: LiveHosts, session: Session
) -> None:
    live.answers["save"] = lambda p, _: structs.replace(
        SAVED, on_disk=p * 1000, nbytes=2000, free=10
    )
    details = "\n".join(fails(live, session).notice.details)
    (line,) = (line.strip() for line in details.splitlines() if "disk" in line)
    said = "process 1 (host h2): 1000 B of 2 KB are written to disk, since only 10 B"
    assert line.startswith(said)
