"""The tables of who is asked to leave a cell: each line of both, and random schedules."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from nbdist.session.cells.leaving import (
    BACK_SECONDS,
    CUT_AGAIN_SECONDS,
    CUT_SECONDS,
    FAILED_CUT_SECONDS,
    Act,
    Order,
    Terms,
)
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.cells.watch import (
    ASK_SECONDS,
    DEATH_GRACE_SECONDS,
    PROOF_SECONDS,
    Decision,
    InVain,
    Moment,
    Watched,
    answered,
    look,
    stop,
)
from tests.builders.outcomes import at_prompt
from tests.builders.outcomes import stands as one
from tests.builders.reports import running as report

NOW = 0.0
TERMS = Terms(grace_s=3.0, give_up_s=10.0, proves=True, counts=True, frees=True)
WAITS = structs.replace(report(cell=1, source="y = step(x)"), line_seconds=9.0)


def at(*processes: ProcessOutcome, now: float = NOW, terms: Terms = TERMS, **watch: Any) -> Moment:
    """Return a look at a cell that began at `NOW`."""
    remembered = Watched(**{"started": NOW, **watch})
    return Moment(remembered, {s.process_id: s for s in processes}, now, terms)


def acts(done: Decision) -> dict[Act, tuple[int, ...]]:
    """Return what is done to which processes, without what is said."""
    said = (Act.NOTE, Act.SHOW)
    return {order.act: order.ids for order in done.orders if order.act not in said}


RAISED = one(1, "raised", error="ValueError: x", time=1.0)
GONE = one(1, "gone", error="killed by signal 9", time=1.0)


@pytest.mark.parametrize(
    ("processes", "after", "remembered", "terms", "wanted"),
    [
        # A process is at a prompt: nobody is late, whoever has failed.
        ((at_prompt(0), RAISED), 99.0, {}, {"timeout_s": 5.0}, {}),
        # All wait for a proof.
        ((one(0, proving=True), RAISED), 0.0, {}, {}, {Act.JOIN: ()}),
        ((one(0, proving=True), RAISED), PROOF_SECONDS - 0.1, {"joined": NOW}, {}, {}),
        ((one(0, proving=True), RAISED), PROOF_SECONDS, {"joined": NOW}, {}, {Act.ABANDON: (0,)}),
        ((one(0, proving=True), one(1, "finished")), 99.0, {"joined": NOW}, {}, {}),
        # The limit of the cell.
        ((one(0), one(1)), 4.9, {}, {"timeout_s": 5.0}, {}),
        ((one(0), one(1)), 5.0, {}, {"timeout_s": 5.0}, {Act.INTERRUPT: (0, 1)}),
        # One has failed.
        ((one(0), RAISED), 2.9, {"failed": NOW}, {}, {}),
        ((one(0), RAISED), 3.0, {"failed": NOW}, {}, {Act.INTERRUPT: (0,)}),
        ((one(0), GONE), DEATH_GRACE_SECONDS, {"failed": NOW}, {}, {Act.INTERRUPT: (0,)}),
        ((one(0), GONE), 1.0, {"failed": NOW}, {"grace_s": 1.0}, {Act.INTERRUPT: (0,)}),
        # A prompt was left a moment ago: all have stood where they are since it came.
        ((one(0, activity=WAITS),), 2.9, {"resumed": NOW}, {"out_of_step": True}, {}),
        ((one(0, activity=WAITS),), 3.0, {"resumed": NOW}, {"out_of_step": True}, {Act.INTERRUPT: (0,)}),
        # The session is out of step.
        ((one(0, activity=WAITS), one(1)), 99.0, {}, {"out_of_step": True}, {}),
        # All in the code wait.
        ((one(0, activity=WAITS), one(1, proving=True)), 9.0, {}, {}, {Act.ASK: (0,)}),
        ((one(0, activity=WAITS), one(1)), 9.0, {}, {}, {}),
        ((one(0, activity=WAITS),), ASK_SECONDS - 0.1, {"questioned": NOW}, {}, {}),
        ((one(0, activity=WAITS),), 9.0, {}, {"counts": False}, {}),
    ],
)  # fmt: skip
def test_the_first_rule_that_holds_says_what_is_done(
    processes: Any, after: float, remembered: Any, terms: Any, wanted: Any
) -> None:
    seen = at(*processes, now=NOW + after, terms=replace(TERMS, **terms), **remembered)
    assert acts(look(seen)) == wanted


@pytest.mark.parametrize(
    ("process", "act"),
    [
        (one(0, begun=False), Act.TAKE_BACK),
        (one(0), Act.INTERRUPT),
        (one(0, activity=WAITS), Act.INTERRUPT),
        (at_prompt(0), Act.INTERRUPT),
        (one(0, proving=True), Act.ABANDON),
        (one(0, proving=True, begun=False), Act.ABANDON),
        (one(0, "finished"), None),
    ],
)
def test_a_process_is_asked_to_leave_as_it_can_be_where_it_stands(
    process: ProcessOutcome, act: Act | None
) -> None:
    done = stop(at(process))
    assert acts(done) == ({} if act is None else {act: (0,)})
    assert done.watch.stopping


LATE = CUT_SECONDS + BACK_SECONDS


@pytest.mark.parametrize(
    ("was", "now", "after", "wanted"),
    [
        (one(0), one(0), CUT_SECONDS - 0.01, set()),
        (one(0), one(0), CUT_SECONDS, {Act.FREE}),
        (one(0), one(0), LATE, {Act.FREE, Act.RESCUE}),
        (one(0), one(0), 10.0, {Act.FREE, Act.GIVE_UP}),
        (one(0, begun=False), one(0, begun=False), 0.1, set()),
        (one(0, begun=False), one(0), 0.1, {Act.INTERRUPT}),
        (one(0, begun=False), one(0), 10.0, {Act.INTERRUPT}),
        (one(0, begun=False), one(0, proving=True), 0.1, set()),
        (one(0), at_prompt(0), 0.1, {Act.INTERRUPT}),
        (at_prompt(0, 1), at_prompt(0, 1), 0.1, set()),
        (at_prompt(0, 1), at_prompt(0, 2), 0.1, {Act.INTERRUPT}),
    ],
)
def test_a_process_that_was_asked_to_leave_is_seen_out(
    was: ProcessOutcome, now: ProcessOutcome, after: float, wanted: set[Act]
) -> None:
    asked = stop(at(was)).watch
    seen = Moment(asked, {0: now}, NOW + after, TERMS)
    done = look(seen)
    assert acts(done).keys() == wanted
    # What was done is not done again at once.
    again = acts(look(seen._replace(watch=done.watch))).keys()
    assert again <= {Act.GIVE_UP}


def test_collectives_are_cut_sooner_where_one_has_failed_and_again_after_a_while() -> None:
    asked = stop(at(one(0), RAISED, failed=NOW)).watch
    seen = Moment(asked, {0: one(0), 1: RAISED}, NOW + FAILED_CUT_SECONDS, TERMS)
    freed = look(seen)
    assert acts(freed) == {Act.FREE: (0,)}
    later = seen._replace(watch=freed.watch, now=seen.now + CUT_AGAIN_SECONDS)
    assert acts(look(later)) == {Act.FREE: (0,)}
    assert acts(look(later._replace(terms=replace(TERMS, frees=False)))) == {}


@pytest.mark.parametrize(
    ("act", "answer", "stops"),
    [
        (Act.JOIN, True, False),
        (Act.JOIN, False, True),
        (Act.ASK, None, False),
        (Act.ASK, InVain("all wait", certain=False), False),
        (Act.ASK, InVain("nobody comes", certain=True), True),
    ],
)
def test_an_answer_ends_a_cell_only_where_it_is_certain(act: Act, answer: Any, stops: bool) -> None:
    seen = at(one(0))
    assert answered(seen, Order(act), answer).watch.stopping is stops
    stopped = seen._replace(watch=stop(seen).watch)
    assert answered(stopped, Order(act), answer) == Decision(stopped.watch)


class World:
    """Processes that do as they like, by a random schedule; some never hear an interrupt.

    It does what the tables say, and keeps what each process was asked, and when.
    """

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        chance, count = self.random.random, self.random.randint(1, 4)
        self.terms = replace(
            TERMS,
            timeout_s=self.random.choice([None, 4.0]),
            out_of_step=chance() < 0.2,
            proves=chance() < 0.7,
            frees=chance() < 0.7,
        )
        self.deaf = {p for p in range(count) if chance() < 0.3}
        self.now = NOW
        self.outcomes = {p: one(p, begun=chance() < 0.7) for p in range(count)}
        self.watch = Watched(started=NOW)
        self.asked: list[tuple[float, Act, int, ProcessOutcome]] = []
        self.due: dict[int, float] = {}
        self.stopped_at: float | None = None

    @property
    def still(self) -> list[int]:
        return [p for p, s in self.outcomes.items() if s.outcome == "running"]

    def happens(self) -> None:
        """Let something happen to one process."""
        process_id = self.random.choice(self.still)
        process, chance = self.outcomes[process_id], self.random.random()
        if process_id in self.due and self.now >= self.due[process_id]:
            change: dict[str, Any] = {"outcome": "interrupted"}
        elif not process.begun:
            change = {"begun": chance < 0.3}
        elif process.prompt is not None:
            change = {"prompt": None} if chance < 0.2 else {}
        elif process.proving:
            change = {"outcome": "finished"} if chance < 0.02 else {}
        elif chance < 0.005:
            change = {"outcome": "raised", "error": "ValueError: x", "time": self.now}
        elif chance < 0.008:
            change = {"outcome": "gone", "error": "killed by signal 9", "time": self.now}
        elif chance < 0.02 and self.terms.proves:
            change = {"proving": True}
        elif chance < 0.022:
            number = self.random.randint(1, 9)
            change = {"prompt": at_prompt(0, number).prompt}
        elif chance < 0.06:
            change = {"activity": self.random.choice([None, WAITS])}
        else:
            change = {}
        self.outcomes[process_id] = replace(process, **change)

    def looks(self) -> None:
        seen = Moment(self.watch, dict(self.outcomes), self.now, self.terms)
        self.do(look(seen))

    def do(self, done: Decision) -> None:
        if done.watch.stopping and not self.watch.stopping:
            self.stopped_at = self.now
        self.watch = done.watch
        for order in done.orders:
            for process_id in order.ids:
                self.asked.append((self.now, order.act, process_id, self.outcomes[process_id]))
            if order.act in (Act.INTERRUPT, Act.ABANDON):
                hear = [p for p in order.ids if p not in self.deaf]
                self.due |= {p: self.now + self.random.uniform(0.0, 1.0) for p in hear}
            elif order.act is Act.GIVE_UP:
                self.outcomes |= {p: one(p, "stuck") for p in order.ids}
            elif order.act in (Act.JOIN, Act.ASK):
                answer = self.random.choice([True, False])
                found = InVain("nobody comes", certain=answer) if answer else None
                seen = Moment(self.watch, dict(self.outcomes), self.now, self.terms)
                self.do(answered(seen, order, answer if order.act is Act.JOIN else found))


@pytest.mark.parametrize("block", range(10))
def test_whatever_happens_nobody_is_asked_wrongly_and_every_stopped_cell_ends(block: int) -> None:
    for seed in range(block * 40, block * 40 + 40):
        world = World(seed)
        while world.still and world.now < NOW + 60.0:
            world.happens()
            if world.still:
                world.looks()
            world.now += 0.1
        for when, act, process_id, process in world.asked:
            if act is Act.INTERRUPT:
                assert process.begun and not process.proving, seed
            if act is Act.TAKE_BACK:
                assert not process.begun, seed
            if act is Act.ABANDON:
                assert process.proving, seed
            if act in (Act.FREE, Act.RESCUE, Act.GIVE_UP):
                first = next(w for w, _, p, _ in world.asked if p == process_id)
                assert when - first >= FAILED_CUT_SECONDS, seed
        if world.stopped_at is not None:
            # Each has left, or was given up, after the time for it since its last interrupt.
            assert not world.still, seed
            for process_id in world.outcomes:
                begun = [
                    w for w, act, p, _ in world.asked if p == process_id and act is Act.INTERRUPT
                ]
                given_up = [
                    w for w, act, p, _ in world.asked if p == process_id and act is Act.GIVE_UP
                ]
                for when in given_up:
                    last = max([world.stopped_at, *(w for w in begun if w < when)])
                    assert when - last <= world.terms.give_up_s + 0.2, seed
