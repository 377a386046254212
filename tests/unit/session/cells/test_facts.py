"""What each event teaches about the processes: a table, the states of a life, and random sequences of events."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from nbdist.contract.cells import Doubt
from nbdist.errors import Notice, SessionError
from nbdist.launch.model.happenings import CONTROLLER, ProcessExit
from nbdist.session.cells.facts import ELSEWHERE, RECOVER, LifeState, ProcessFacts
from nbdist.session.cells.outcome import Outcome, ProcessOutcome
from tests.builders.outcomes import ended, stands

DONE = Notice(level="warn", title="The session was repaired.", text="", code="repaired")

TWO = ProcessFacts(workers=frozenset({0, 1}), advice=RECOVER, last_cell=4, proves=True)
COPIED = Doubt(kind="copied", of=0)


def ends(**outcomes: Outcome) -> dict[int, ProcessOutcome]:
    """Return outcomes by process id: `ends(p0="finished", p1="gone")`."""
    return {int(name[1:]): stands(int(name[1:]), outcome) for name, outcome in outcomes.items()}


def exit_of(process_id: int, because_of: str | None = None) -> dict[int, ProcessExit]:
    code = None if because_of else -9
    return {process_id: ended(process_id, code=code, because_of=because_of)}


KILLED = str(exit_of(1)[1])
STUCK = replace(TWO, stuck=frozenset({1}), stuck_in={1: 70}, since=4)


@pytest.mark.parametrize(
    ("before", "event", "args", "changed"),
    [
        # A cell has ended.
        (TWO, "after", (ends(p0="finished", p1="raised"), 5), {"since": None, "last_cell": 5}),
        (TWO, "after", (ends(p0="finished", p1="interrupted"), 5), {"since": None}),
        (replace(TWO, proves=False), "after", (ends(p1="interrupted"), 5), {"since": 5}),
        (TWO, "after", (ends(p1="stuck"), 5), {"since": 5, "stuck": {1}}),
        (TWO, "after", (ends(p1="gone"), 5), {"since": 5, "lost": {1: "gone"}}),
        (TWO, "after", (ends(p2="gone"), 5), {"since": None, "lost": {2: "gone"}}),  # an evaluator
        (STUCK, "after", (ends(p1="finished"), 5), {"since": 4, "stuck": frozenset()}),
        (replace(TWO, workers=frozenset({0})), "after", (ends(p0="gone"), 5), {"since": None}),
        (replace(TWO, notice=DONE), "after", (ends(p0="finished"), 5), {"notice": None}),
        # Between cells.
        (TWO, "ended", (exit_of(1),), {"lost": {1: KILLED}, "since": 4, "unreachable": set()}),
        (TWO, "ended", (exit_of(1, "host h2"),), {"unreachable": {1}, "since": 4}),
        (TWO, "ended", (exit_of(1, CONTROLLER),), {"unreachable": set(), "since": 4}),
        (replace(TWO, lost={1: "out of reach: h2"}), "ended", (exit_of(1),), {"lost": {1: KILLED}}),
        (replace(TWO, lost={1: KILLED}), "ended", (exit_of(1, "host h2"),), {"lost": {1: KILLED}}),
        (TWO, "ended", ({},), {"since": None}),
        (replace(TWO, lost={0: "a", 1: "b"}), "reachable", ({1: "b"},), {"lost": {1: "b"}}),
        (TWO, "given_up", ({1},), {"stuck": {1}, "since": 4, "last_cell": 4}),
        (STUCK, "back", ({1},), {"stuck": frozenset(), "since": 4}),
        (TWO, "found_out_of_step", (6, "why"), {"since": 6, "why": "why"}),
        (STUCK, "found_out_of_step", (6, "why"), {"since": 4, "why": "why"}),
        (STUCK, "recovered", (DONE, {}), {"since": None, "stuck": frozenset(), "notice": DONE}),
        (replace(TWO, unsure={"x": COPIED, "y": COPIED}), "sure_of", ("x",), {"unsure": {"y": COPIED}}),
        # What can be proven.
        (replace(TWO, advice="a"), "able_to_prove", ([True, True],), {"proves": True, "advice": RECOVER}),
        (replace(TWO, advice=ELSEWHERE), "able_to_prove", ([True, True],), {"advice": ELSEWHERE}),
        (replace(TWO, advice="a"), "able_to_prove", ([True, False],), {"proves": False, "advice": "a"}),
        (replace(TWO, workers=frozenset({0})), "able_to_prove", ([True],), {"proves": False}),
    ],
)  # fmt: skip
def test_an_event_changes_what_it_teaches(
    before: ProcessFacts, event: str, args: Any, changed: dict[str, Any]
) -> None:
    options = {"unsure": args[1]} if event == "recovered" else {}
    args = args[:1] if options else args
    after = getattr(before, event)(*args, **options)
    assert {name: getattr(after, name) for name in changed} == changed


def test_what_is_known_of_a_running_cell_outlives_an_end_in_it_but_not_the_cell() -> None:
    facts = TWO.in_cell(ends(p0="running", p1="raised"), 9.0)
    in_it = facts.ended(exit_of(1))
    assert (in_it.running, in_it.ends_at, in_it.lost) == (facts.running, 9.0, {1: KILLED})
    after = in_it.after(ends(p0="interrupted", p1="gone"), 5, run=70)
    assert (after.running, after.ends_at) == ({}, None)


def test_a_process_has_left_a_sending_that_it_has_replied_to_and_all_before() -> None:
    facts = TWO.after(ends(p0="finished", p1="stuck"), 5, run=70)
    assert [facts.has_left(0, run) for run in (69, 70, 71, None)] == [True, True, False, False]
    assert not facts.has_left(1, 70)
    assert facts.stuck_in == {1: 70}


ALLOWED = {
    ("STARTING", "RUNNING"),
    ("STARTING", "ENDED"),
    ("RUNNING", "REPAIRING"),
    ("RUNNING", "ENDED"),
    ("REPAIRING", "RUNNING"),
    ("REPAIRING", "ENDED"),
}


@pytest.mark.parametrize("before", LifeState, ids=lambda state: state.name)
@pytest.mark.parametrize("after", LifeState, ids=lambda state: state.name)
def test_only_the_ways_of_a_life_lead_from_one_to_another(
    before: LifeState, after: LifeState
) -> None:
    facts = replace(TWO, state=before)
    if before is after or (before.name, after.name) in ALLOWED:
        assert facts.to(after).state is after
    elif before is LifeState.ENDED:
        assert facts.to(after).state is before, "a stop may have come in between"
    else:
        with pytest.raises(SessionError, match=f"is {before.value}, and cannot be {after.value}"):
            facts.to(after)


@pytest.mark.parametrize("seed", range(50))
def test_whatever_happens_the_facts_agree_with_each_other(seed: int) -> None:
    chance = random.Random(seed)
    facts, doubts = replace(TWO, state=LifeState.RUNNING), {"x", "y"}
    for cell in range(5, 105):
        outcomes = chance.choices(["finished", "raised", "interrupted", "stuck", "gone"], k=2)
        before = facts
        match chance.randrange(6):
            case 0 | 1:
                facts = facts.after(ends(p0=outcomes[0], p1=outcomes[1]), cell, run=cell)
                assert facts.since in (before.since, cell)
                assert before.since is None or facts.since == before.since, "the first counts"
                assert not {"stuck", "gone"}.intersection(outcomes) or facts.out_of_step
            case 2:
                facts = facts.ended(exit_of(chance.randrange(2), chance.choice([None, "host h2"])))
                assert facts.out_of_step and facts.lost
            case 3:
                facts = facts.recovered("done", unsure={chance.choice([*doubts]): COPIED})
                assert not (facts.out_of_step or facts.lost or facts.stuck or facts.unreachable)
                assert facts.unsure.keys() > before.unsure.keys() or facts.unsure == before.unsure
            case 4:
                facts = facts.sure_of(chance.choice([*doubts]))
                assert facts.unsure.keys() <= before.unsure.keys()
            case 5:
                facts = facts.back({chance.randrange(2)})
                assert facts.stuck <= before.stuck and facts.since == before.since
        shown = facts.known()
        assert shown.out_of_step == facts.out_of_step and shown.stuck == facts.stuck
        assert shown.stuck_in.keys() <= facts.stuck
        assert not facts.remedy.count("{"), "every command is filled in"
    assert facts.to(LifeState.ENDED).known().stopped
