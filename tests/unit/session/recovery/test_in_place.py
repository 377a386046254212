"""After a cell: proven to be in step, or repaired, or said why neither can be done."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.contract.calls import Done
from nbdist.contract.calls.stepping import (
    AskSent,
    Forgotten,
    Labels,
    Proven,
    Rejoin,
    Sent,
    Versions,
)
from nbdist.contract.cells import Doubt
from nbdist.contract.iopub import CellStep
from nbdist.errors import GoneError, LaunchError, NbdistError, Notice, RecoveryError
from nbdist.session import asking, recovery
from nbdist.session.cells.facts import ProcessFacts
from nbdist.session.recovery import ensure_in_step, in_place
from nbdist.session.recovery.compared import differing_labels, which_differ
from nbdist.session.recovery.in_place import Settled, hindrance, try_repair
from nbdist.session.recovery.recovery import join_proof
from nbdist.session.recovery.repair import Repaired
from tests.builders.clock import Clock
from tests.builders.engines import FakeEngines, cell_step, gone, sent, trail
from tests.builders.outcomes import ended
from tests.builders.reports import RUNNING

DONE = Notice(level="warn", title="It was repaired.", text="Lost: w.", code="repaired", lost=("w",))
REPAIRED = Repaired(done=DONE, unsure={}, older={})


@pytest.fixture
def repairs(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The numbers of the proofs of repairs that were begun."""
    found: list[int] = []

    def repair(
        engines: Any, *, number: int, say: Any, states: Any = None, gone: Any = ()
    ) -> Repaired:
        found.append(number)
        return REPAIRED

    monkeypatch.setattr(in_place, "repair", repair)
    return found


def settled(engines: Any, *, automatic: bool = True) -> Settled:
    return in_place.InPlace(engines).prove(automatic=automatic, say=lambda text: None)


def test_equal_counts_and_a_proof_that_passes_are_in_step_without_a_word(
    repairs: list[int],
) -> None:
    engines = FakeEngines()
    assert settled(engines) == Settled()
    assert engines.names() == ["step", "prove", "versions"]
    assert repairs == []


@pytest.mark.parametrize("states", [(sent(3), sent(2)), (sent(3, 8), sent(1, 8))])
def test_counts_that_differ_are_repaired_without_a_proof(repairs: list[int], states: Any) -> None:
    engines = FakeEngines(step=lambda p: states[p])
    done = settled(engines)
    assert engines.names() == ["step", "labels"]
    assert repairs == [7]
    assert done.why is None
    assert "different" in str(done.because)
    assert done.lost == ("w",)
    assert engines.monitor.repairing == [False, True, False]


def test_what_was_sent_before_all_were_last_compared_is_not_said_to_differ(
    repairs: list[int],
) -> None:
    engines = FakeEngines(
        step=lambda p: sent(5 + p),
        labels=lambda p: labels(*["f() 1"] * 5, *["g() 2"] * p),
    )
    engines.in_step_at = (sent().generation, 5)
    because = str(settled(engines).because)
    assert because.endswith(
        "process 0 sent none, process 1 sent 1 (g: 0 on process 0, 1 on process 1)"
    )


def test_where_one_does_not_count_a_proof_decides(repairs: list[int]) -> None:
    engines = FakeEngines(step=lambda p: sent(p, counted=p == 0))
    assert settled(engines) == Settled()
    assert "prove" in engines.names()


@pytest.mark.parametrize(
    "answer",
    [
        Proven(passed=False, alike=True, error="x"),
        Proven(passed=None, alike=True),
        Proven(passed=True, alike=False),
    ],
)
def test_a_proof_that_does_not_pass_on_one_is_repaired(repairs: list[int], answer: Any) -> None:
    passed = Proven(passed=True, alike=True)
    engines = FakeEngines(prove=lambda p, **_: answer if p else passed)
    assert settled(engines).because == "the collectives of the processes do not match"
    assert repairs == [7]


def test_a_process_that_fails_when_it_is_asked_is_repaired(repairs: list[int]) -> None:
    engines = FakeEngines(step=lambda p: gone() if p else sent())
    assert "process 1 (host h2): process 1" in str(settled(engines).because)
    assert repairs == [7]


def test_without_leave_to_repair_it_is_said_why_they_are_not(repairs: list[int]) -> None:
    engines = FakeEngines(step=sent)
    done = settled(engines, automatic=False)
    assert "different numbers of programs" in str(done.why)
    assert "process 0 sent none, process 1 sent 1" in str(done.why)
    assert repairs == []


def test_arrays_of_mixed_pieces_are_deleted_on_all_though_the_processes_are_in_step(
    repairs: list[int],
) -> None:
    deleted, named = [], {}
    engines = FakeEngines(
        name_lost=lambda p, texts: named.update({p: dict(texts)}) or Done(),
        versions=lambda p: Versions(
            versions={"w": (0, p, "0")}, reasons={}, unnamed=(), generation=0
        ),
        forget=lambda p, paths, unnamed, whole: (
            deleted.append((p, paths, whole)) or Forgotten(lost=())
        ),
    )
    engines.made_in = lambda paths: {3} if paths == ["w"] else set()
    done = settled(engines)
    assert deleted == [(0, ("w",), False), (1, ("w",), False)]
    assert done.lost == ("w",)
    assert done.done is not None
    assert (done.done.code, done.done.title) == ("lost", "The processes are in step.")
    assert named == {0: engines.lost_texts, 1: engines.lost_texts}
    assert engines.lost_texts["w"].startswith("w was lost in cell 4: ")
    assert engines.lost_texts["w"].endswith(done.done.do)
    assert done.done.do.endswith("cell 3 assigns it.")


@pytest.mark.parametrize(
    ("facts", "why"),
    [
        ({"lost": {1: "killed"}}, "process 1 (host h2) is gone"),
        ({"lost": {0: "killed", 1: "killed"}}, "processes 0, 1 (hosts h1, h2) are gone"),
        ({"stuck": frozenset({1})}, "process 1 did not stop when interrupted"),
        ({"silent": {"h2": 1.0}}, "host h2 does not answer"),
    ],
)
@pytest.mark.parametrize("automatic", [False, True])
def test_nothing_is_asked_where_one_cannot_answer(
    repairs: list[int], facts: Any, why: str, automatic: bool
) -> None:
    engines = FakeEngines()
    engines.facts = replace(engines.facts, **facts)
    engines.monitor.reported[1] = RUNNING
    engines.hurry.set()  # nobody waits for a host that is silent
    assert settled(engines, automatic=automatic) == Settled(why=why)
    assert try_repair(engines, say=print) == Settled(why=why)
    assert (engines.asked, repairs) == ([], [])


def test_one_that_was_stuck_and_has_left_its_cell_since_is_as_the_others(
    repairs: list[int],
) -> None:
    engines = FakeEngines()
    engines.facts = replace(engines.facts, stuck=frozenset({1}))
    assert settled(engines) == Settled()
    assert engines.facts.stuck == frozenset()


def test_a_lost_process_that_computes_nothing_hinders_nobody() -> None:
    engines = FakeEngines()
    engines.facts = replace(engines.facts, lost={9: "killed"}, stuck=frozenset({8}))
    assert hindrance(engines) is None


def test_what_others_have_started_is_not_repaired(repairs: list[int]) -> None:
    engines = FakeEngines(step=sent)
    engines.cluster.agents.all = []
    assert "has not started" in str(settled(engines).why)
    assert repairs == []


@pytest.mark.parametrize("error", [RecoveryError("no room"), LaunchError("no service")])
def test_a_repair_that_fails_leaves_the_reason(monkeypatch: pytest.MonkeyPatch, error: Any) -> None:
    def fails(engines: Any, **options: Any) -> None:
        raise error

    monkeypatch.setattr(in_place, "repair", fails)
    engines = FakeEngines(step=sent)
    done = settled(engines)
    assert done.why == f"the repair failed: {error}"
    assert engines.monitor.repairing == [False, True, False]


def test_where_the_coordination_service_has_ended_all_join_another(repairs: list[int]) -> None:
    engines = FakeEngines()
    engines.lost_service = ended()
    lines: list[str] = []
    done = in_place.InPlace(engines).prove(automatic=True, say=lines.append)
    (line,) = lines
    assert "SIGKILL" in line
    assert (done.why, done.because) == (None, "JAX's coordination service has ended")
    assert repairs == [7]
    assert settled(engines, automatic=False).why == done.because


def mended(
    monkeypatch: pytest.MonkeyPatch, *failures: Callable[[Any], NbdistError], lost: bool = False
) -> tuple[list[frozenset[int]], list[str], Settled]:
    """Which processes each repair replaces, what was said, and how it ended; each repair fails as is given."""
    engines = FakeEngines(step=sent)
    engines.hosts_there = True
    if lost:
        engines.cluster.exits = {1: ended()}
        engines.health.note(ProcessFacts.ended, engines.cluster.exits)
    begun: list[frozenset[int]] = []

    def fails(engines: Any, *, gone: Any = (), **options: Any) -> None:
        begun.append(gone)
        raise failures[len(begun) - 1](engines)

    monkeypatch.setattr(in_place, "repair", fails)
    lines: list[str] = []
    return begun, lines, try_repair(engines, say=lines.append)  # type: ignore[arg-type]


def no_room(engines: Any) -> NbdistError:
    return RecoveryError("no room.")


def dies(engines: Any, *, pid: int = 7) -> NbdistError:
    engines.cluster.exits = {1: ended(pid=pid)}
    return RecoveryError("process 1 killed meanwhile")


def cannot_be_reached(engines: Any) -> NbdistError:
    # The controller has noticed that its connection is closed, and the agent reports it a moment later.
    later = threading.Timer(0.2, lambda: engines.cluster.exits.update({1: ended()}))
    later.start()
    error = RecoveryError("process 1: process 1 has ended.")
    error.__cause__ = GoneError("process 1 has ended.")
    return error


@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (dies, "process 1 killed meanwhile"),
        (cannot_be_reached, "process 1: process 1 has ended"),
    ],
    ids=["ends", "cannot be reached before its agent has said how it ended"],
)
def test_a_repair_in_which_another_ends_begins_again_with_that_one_replaced(
    monkeypatch: pytest.MonkeyPatch, failure: Any, said: str
) -> None:
    begun, lines, done = mended(monkeypatch, failure, no_room)
    assert begun == [frozenset(), frozenset({1})]
    assert lines == [f"the repair begins again: {said}"]
    assert done.why == "the repair failed: no room"


def test_a_new_process_that_ends_in_the_repair_that_brings_it_is_replaced_and_not_for_ever(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dying = [partial(dies, pid=pid) for pid in (8, 9, 10)]
    begun, lines, done = mended(monkeypatch, *dying, lost=True)
    assert begun == [frozenset({1})] * 3
    assert lines == ["the repair begins again: process 1 killed meanwhile"] * 2
    assert done.why == "the repair failed: process 1 killed meanwhile"


def test_a_repair_that_fails_without_another_end_does_not_begin_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    begun, lines, done = mended(monkeypatch, no_room, lost=True)
    assert (begun, lines) == ([frozenset({1})], [])
    assert done.why == "the repair failed: no room"


def labels(
    *names: str,
    kinds: tuple[str | None, ...] | None = None,
    given: tuple[str, ...] | None = None,
) -> Labels:
    nothing = ("",) * len(names)
    kinds = (None,) * len(names) if kinds is None else kinds
    return Labels(labels=names, kinds=kinds, given=given or nothing)


def labelled(*lists: list[str]) -> dict[int, Labels]:
    return {p: labels(*names) for p, names in enumerate(lists)}


def test_different_programs_in_the_same_number_are_said_by_their_names() -> None:
    text = differing_labels(labelled(["step() 3", "f() 1"], ["step() 3", "g() 2"]))
    assert text is not None and "equally many" in text
    assert text.endswith("process 0 sent f(), process 1 sent g()")


@pytest.mark.parametrize(
    "other", [["step() 3", "eq 1"], ["?", "f() 1"], ["f() 1"], ["step() 3", "f() 1"]]
)
def test_a_program_without_a_name_may_be_any(other: list[str]) -> None:
    assert differing_labels(labelled(["step() 3", "f() 1"], other)) is None


def test_names_that_differ_are_looked_at_one_by_one_before_a_proof(repairs: list[int]) -> None:
    engines = FakeEngines(
        step=lambda p: sent(2, p), labels=lambda p: labels("f() 1", "?" if p else "g() 2")
    )
    assert settled(engines) == Settled()
    assert engines.names() == ["step", "labels", "prove", "versions"]
    engines = FakeEngines(
        step=lambda p: sent(2, p), labels=lambda p: labels("f() 1", "h() 9" if p else "g() 2")
    )
    assert "process 0 sent g(), process 1 sent h()" in str(settled(engines).because)
    assert repairs == [7]


SUM, MAX = "all-reduce(add) f32[] replica_groups=a", "all-reduce(maximum) f32[] replica_groups=a"


@pytest.mark.parametrize(
    ("name", "kinds", "said"),
    [
        ("f() 1", (SUM, MAX), "all-reduce(add) f32[] on process 0, all-reduce(maximum) f32[] on"),
        ("reduce 1", (SUM, ""), "all-reduce(add) f32[] on process 0, none on process 1"),
        (
            "f() 1",
            (SUM, "\n".join([MAX, "all-gather f32[8]", SUM, SUM])),
            "all-reduce(maximum) f32[], all-gather f32[8], all-reduce(add) f32[] and 1 more on process 1",
        ),
        (
            "f() 1",
            (SUM, SUM.replace("=a", "=b")),
            "on process 0, all-reduce(add) f32[] on process 1",
        ),
    ],
)
def test_one_function_with_different_collectives_is_said(
    name: str, kinds: tuple[str, str], said: str
) -> None:
    # Whoever has answered first.
    text = differing_labels({p: labels(name, kinds=(kinds[p],)) for p in (1, 0)})
    assert text is not None
    assert text.startswith(
        f"the processes have compiled {name.split()[0]} to different collectives"
    )
    assert said in text


@pytest.mark.parametrize("kinds", [(SUM, None), (None, None), (SUM, SUM)])
def test_a_function_that_ran_before_on_one_process_is_not_compared(kinds: Any) -> None:
    assert differing_labels({p: labels("f() 1", kinds=(kinds[p],)) for p in (0, 1)}) is None


def test_helpers_in_another_order_are_not_said_to_differ() -> None:
    one = labels("gather 1", "reduce 2", kinds=("", SUM))
    other = labels("reduce 2", "gather 1", kinds=(SUM, ""))
    assert differing_labels({0: one, 1: other}) is None


def test_collectives_that_differ_are_looked_at_before_a_proof(repairs: list[int]) -> None:
    def states(process_id: int) -> Sent:
        return sent(1, kinds=process_id)

    same = FakeEngines(step=states, labels=lambda p: labels("f() 1", kinds=(None if p else SUM,)))
    assert settled(same) == Settled()
    assert repairs == []
    other = FakeEngines(step=states, labels=lambda p: labels("f() 1", kinds=(MAX if p else SUM,)))
    assert "different collectives" in str(settled(other).because)
    assert repairs == [7]


# ---- asking all


def test_a_process_that_has_ended_is_not_sent_anything() -> None:
    engines = FakeEngines()
    engines.cluster.exits[1] = "was killed by signal 9"
    with pytest.raises(RecoveryError, match="process 1 was killed by signal 9 meanwhile"):
        asking.ask_all(engines, AskSent(), within_s=1)
    assert engines.asked == []


def test_one_that_ends_while_it_is_asked_is_named() -> None:
    engines = FakeEngines()

    def step(process_id: int) -> Any:
        if process_id == 0:
            return sent()
        engines.cluster.exits[1] = "ended"
        return None

    engines.answers["step"] = step
    with pytest.raises(RecoveryError, match="process 1 ended meanwhile"):
        asking.ask_all(engines, AskSent(), within_s=30)


def test_where_one_fails_the_others_are_waited_for() -> None:
    moments = iter(range(5))
    late = SimpleNamespace(
        ready=lambda: next(moments) == 4, wait=lambda seconds: None, get=lambda: (trail(sent()), [])
    )
    engines = FakeEngines(step=lambda p: gone() if p == 0 else sent())
    send = engines.send
    engines.send = lambda p, call: late if p == 1 else send(p, call)
    with pytest.raises(RecoveryError, match=r"^process 0 \(host h1\): "):
        asking.ask_all(engines, AskSent(), within_s=30)
    assert list(moments) == []


def test_one_that_does_not_answer_in_time_is_named() -> None:
    engines = FakeEngines(step=lambda p: sent() if p else None)
    with pytest.raises(RecoveryError, match=r"process 0 did not answer within 0\.0 s"):
        asking.ask_all(engines, AskSent(), within_s=0.01)


def test_seconds_in_which_a_host_is_silent_do_not_count() -> None:
    engines = FakeEngines(step=lambda p: sent() if p else None)
    engines.facts = engines.facts.silent_since({"h1": 0.0})
    began = time.monotonic()

    def meanwhile(missing: list[int]) -> None:
        if time.monotonic() - began > 1.5:
            engines.facts = engines.facts.silent_since({})

    with pytest.raises(RecoveryError, match=r"process 0 did not answer within 0\.0 s"):
        asking.ask_all(engines, AskSent(), within_s=0.01, meanwhile=meanwhile)
    assert time.monotonic() - began > 1.5


def test_a_host_that_answers_after_a_long_silence_is_in_time() -> None:
    back = threading.Event()
    late = SimpleNamespace(
        ready=back.is_set, wait=lambda seconds: None, get=lambda: (trail(sent()), [])
    )
    engines = FakeEngines(step=lambda p: sent())
    engines.facts = engines.facts.silent_since({"h1": 0.0})
    send = engines.send
    engines.send = lambda p, call: late if p == 0 else send(p, call)

    def waits(missing: list[int]) -> None:
        time.sleep(0.5)  # longer than all may take together
        engines.facts = engines.facts.silent_since({})
        threading.Timer(0.1, back.set).start()

    assert asking.ask_all(engines, AskSent(), within_s=0.4, meanwhile=waits).keys() == {0, 1}


def test_each_may_be_asked_something_of_its_own() -> None:
    engines = FakeEngines(rejoin=lambda p, arguments: arguments["number"])
    each = {p: Rejoin(arguments={"number": p}) for p in (0, 1)}
    found = asking.ask_all(engines, each, within_s=1)
    assert found == {0: 0, 1: 1}


# ---- taking part in a proof in which others wait


def execution(*, proving: dict[int, Any], **ended: str) -> Any:
    outcomes = {p: SimpleNamespace(outcome="running") for p in proving}
    outcomes |= {int(p[1:]): SimpleNamespace(outcome=o) for p, o in ended.items()}
    steps = {p: cell_step(one) if isinstance(one, Sent) else one for p, one in proving.items()}
    return SimpleNamespace(outcomes=lambda: outcomes, steps=steps, number=11)


def test_others_that_sent_the_same_take_part() -> None:
    numbers = []
    engines = FakeEngines(
        step=lambda p: sent(2, 5),
        prove=lambda p, number, **_: numbers.append(number) or Proven(passed=True, alike=True),
    )
    assert join_proof(engines, execution(proving={0: sent(2, 5)}))
    assert engines.asked == [("step", 1), ("prove", 1)]
    assert numbers == [11]


@pytest.mark.parametrize("state", [sent(1, 5), sent(3, 5), sent(0)])
def test_others_that_sent_something_else_do_not(state: Any) -> None:
    engines = FakeEngines(step=lambda p: state)
    assert not join_proof(engines, execution(proving={0: sent(2, 5)}))
    assert ("prove", 1) not in engines.asked


def test_where_one_has_passed_it_nobody_is_asked_and_nobody_stopped() -> None:
    engines = FakeEngines(step=lambda p: sent(0, proven=11))
    assert join_proof(engines, execution(proving={0: sent(2, 5)}))
    assert engines.names() == ["step"]


def test_where_all_wait_the_proof_itself_decides() -> None:
    engines = FakeEngines()
    assert join_proof(engines, execution(proving={0: sent(2, 5), 1: sent(2, 5)}))
    assert join_proof(engines, execution(proving={0: sent(2, 5), 1: sent(3, 5)}))
    assert engines.asked == []


def waits(count: int, names: int) -> CellStep:
    """Of a process that waits for what it has sent, and will be compared."""
    return cell_step(sent(count, names), compared=True)


def test_those_that_wait_for_their_own_programs_need_nobody_where_all_sent_the_same() -> None:
    engines = FakeEngines(step=lambda p: sent(2, 5))
    assert join_proof(engines, execution(proving={0: waits(2, 5)}))
    assert join_proof(engines, execution(proving={0: waits(2, 5), 1: waits(2, 5)}))
    assert engines.asked == [("step", 1)]
    has_said = execution(proving={0: waits(2, 5)}, p1="finished")
    has_said.steps = {**has_said.steps, 1: waits(2, 5)}
    assert join_proof(engines, has_said)
    assert engines.asked == [("step", 1)]


@pytest.mark.parametrize("other", [(1, 5), (3, 5), (2, 6)])
def test_those_that_wait_for_their_own_programs_wait_in_vain_where_others_sent_others(
    other: tuple[int, int],
) -> None:
    engines = FakeEngines(step=lambda p: sent(*other))
    assert not join_proof(engines, execution(proving={0: waits(2, 5)}))
    assert not join_proof(engines, execution(proving={0: waits(2, 5), 1: waits(*other)}))
    assert ("prove", 1) not in engines.asked


def test_with_one_that_is_gone_nothing_can_pass() -> None:
    engines = FakeEngines()
    assert not join_proof(engines, execution(proving={0: sent(2)}, p1="gone"))
    engines.facts = replace(engines.facts, lost={1: "killed"})
    assert not join_proof(engines, execution(proving={0: sent(2)}))
    assert engines.asked == []


@pytest.mark.parametrize("answer", [gone(), None])
def test_one_that_ends_or_does_not_answer_takes_no_part(answer: Any) -> None:
    engines = FakeEngines(step=lambda p: answer)
    assert not join_proof(engines, execution(proving={0: sent(2)}))


# ---- what the kernel learns


def test_a_repair_is_learned_and_said(repairs: list[int]) -> None:
    engines = FakeEngines(step=sent)
    engines.facts = replace(engines.facts, since=3, why="before")
    assert ensure_in_step(engines, automatic=True) == str(DONE)
    assert not engines.facts.out_of_step
    assert engines.facts.notice == engines.notice == DONE


def test_that_it_is_out_of_step_is_said_with_the_advice() -> None:
    engines = FakeEngines(step=sent)
    text = ensure_in_step(engines, automatic=False)
    notice = engines.notice
    assert text == str(notice)
    assert (notice.level, notice.code) == ("bad", "out of step")
    assert notice.title == f"The session is out of step: {engines.facts.why}."
    assert notice.do == engines.facts.advice
    assert engines.facts.out_of_step


def cell_end(said: list[str], *, looked: bool = False, clean: bool = False) -> Any:
    return SimpleNamespace(
        cell=SimpleNamespace(number=4), began_out_of_step=looked, clean=clean, say=said.append
    )


@pytest.mark.parametrize(("automatic", "looked"), [(False, False), (True, True)])
def test_after_a_cell_out_of_step_nothing_is_asked_without_leave_or_where_it_only_looked(
    automatic: bool, looked: bool
) -> None:
    engines, said = FakeEngines(), []
    engines.facts = replace(engines.facts, since=3, why="before")
    end = cell_end(said, looked=looked)
    assert recovery.after_cell(engines, end, automatic=automatic) is engines.facts
    assert (engines.asked, said) == ([], [])


def test_after_a_cell_that_began_before_another_failed_a_repair_is_tried_again(
    repairs: list[int],
) -> None:
    engines, said = FakeEngines(step=sent), []
    engines.facts = replace(engines.facts, since=3, why="before")
    assert not recovery.after_cell(engines, cell_end(said), automatic=True).out_of_step
    assert repairs == [7]


def test_after_a_cell_the_facts_have_what_was_done(repairs: list[int]) -> None:
    engines, said = FakeEngines(step=sent), []
    facts = recovery.after_cell(engines, cell_end(said), automatic=True)
    assert (said, facts.notice) == ([], DONE)
    assert "different numbers" in str(facts.diverged) and facts.differ
    assert facts.forgotten == DONE.lost
    assert not facts.out_of_step


@pytest.mark.parametrize("clean", [False, True])
def test_after_a_cell_that_has_not_failed_the_next_may_not_count_on_what_has_gone_back(
    monkeypatch: pytest.MonkeyPatch, clean: bool
) -> None:
    """One that has failed ends a run of all cells; what went back is below it."""
    older = {"w": Doubt(kind="older", of=3)}
    monkeypatch.setattr(in_place, "repair", lambda *_, **__: replace(REPAIRED, older=older))
    facts = recovery.after_cell(FakeEngines(step=sent), cell_end([], clean=clean), automatic=True)
    assert facts.unsure == (older if clean else {})


def test_recover_raises_what_hinders_it_and_says_how_to_go_on(monkeypatch: Any) -> None:
    monkeypatch.setattr(in_place, "refuse_unfinished", lambda engines, hopeless: None)
    engines = FakeEngines()
    engines.facts = replace(
        engines.facts, since=3, why="w", lost={1: "killed"}, unreachable=frozenset({1})
    )
    with pytest.raises(RecoveryError) as raised:
        recovery.recover(engines, progress=lambda *a: None)
    notice = raised.value.notice
    assert (notice.code, notice.title) == ("out of step", "Process 1 (host h2) is gone.")
    assert notice.do == engines.facts.remedy
    assert notice.do.startswith("It cannot be started again from here")


def test_one_that_is_gone_is_replaced_where_its_agent_lives(repairs: list[int]) -> None:
    engines = FakeEngines()
    engines.hosts_there = True
    engines.facts = replace(engines.facts, since=3, lost={1: "killed by signal 9 (SIGKILL)"})
    assert settled(engines, automatic=False).why == "process 1 (host h2) is gone"
    assert repairs == []
    done = settled(engines)
    assert (done.why, done.because) == (None, "process 1 (host h2) is gone")
    assert done.done == DONE
    assert repairs == [7]
    assert engines.asked == []  # nothing is proven with one that is not there


@pytest.mark.parametrize(
    "facts",
    [
        {"lost": {0: "killed", 1: "killed"}},  # nobody has what they had
        {"lost": {1: "killed"}, "silent": {"h1": 1.0}},
        {"lost": {1: "killed"}, "proves": False},
    ],
)
def test_none_is_replaced_where_the_others_could_not_help(
    repairs: list[int], facts: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(in_place, "time", Clock())  # a host that is silent is waited for
    engines = FakeEngines()
    engines.hosts_there = True
    engines.facts = replace(engines.facts, since=3, **facts)
    assert "gone" in str(settled(engines).why)
    assert repairs == []


def test_recover_in_step_does_nothing_but_prove_it(monkeypatch: Any, repairs: list[int]) -> None:
    monkeypatch.setattr(in_place, "refuse_unfinished", lambda engines, hopeless: None)
    engines = FakeEngines()
    assert recovery.recover(engines, progress=lambda *a: None) == in_place.IN_STEP
    assert engines.notice == in_place.IN_STEP
    assert repairs == []


@pytest.mark.parametrize("succeeds", [True, False])
def test_recover_tells_in_the_details_what_was_said_meanwhile(
    monkeypatch: pytest.MonkeyPatch, succeeds: bool
) -> None:
    monkeypatch.setattr(in_place, "refuse_unfinished", lambda engines, hopeless: None)
    engines: Any = FakeEngines(step=sent)
    engines.hosts_there = True
    engines.facts = replace(engines.facts, since=3, why="before")
    failures = iter([dies(engines), *([] if succeeds else [no_room(engines)])])
    engines.cluster.exits = {}

    def repair(*_: Any, **__: Any) -> Repaired:
        failure = next(failures, None)
        if failure is None:
            return REPAIRED
        engines.cluster.exits = {1: ended()}
        raise failure

    monkeypatch.setattr(in_place, "repair", repair)
    said = ("the repair begins again: process 1 killed meanwhile",)
    if succeeds:
        notice = recovery.recover(engines, progress=lambda *a: None)
        assert notice == engines.notice == replace(DONE, details=said)
        return
    with pytest.raises(RecoveryError) as raised:
        recovery.recover(engines, progress=lambda *a: None)
    notice = raised.value.notice
    assert (notice.code, notice.details) == ("out of step", said)
    assert notice.title == f"The repair failed: {no_room(engines)}"


# ---- nothing ends it halfway


def test_an_interrupt_does_not_end_it_halfway() -> None:
    engines, ended = FakeEngines(), []

    def work() -> str:
        for _ in range(3):
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
            threading.Event().wait(0.02)
        ended.append(True)
        return "done"

    handler = signal.getsignal(signal.SIGINT)
    assert engines.exclusive(work) == "done"
    assert ended == [True]
    assert engines.hurry.is_set(), "what is only waited for is not any longer"
    assert signal.getsignal(signal.SIGINT) is handler


def test_an_interrupt_of_the_last_time_does_not_count() -> None:
    engines = FakeEngines()
    engines.hurry.set()
    assert engines.exclusive(engines.hurry.is_set) is False


def test_an_error_is_raised_where_it_was_asked_for() -> None:
    with pytest.raises(ZeroDivisionError):
        FakeEngines().exclusive(lambda: 1 / 0)


def test_two_at_once_come_one_after_the_other() -> None:
    engines, inside, most = FakeEngines(), [], []

    def work() -> None:
        inside.append(1)
        threading.Event().wait(0.02)
        most.append(len(inside))
        inside.pop()

    threads = [threading.Thread(target=engines.exclusive, args=(work,)) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert most == [1, 1, 1]


def test_functions_that_were_not_sent_equally_often_are_named() -> None:
    found_on = {0: ["f() 1 2 ()", "g 3"], 1: ["f() 1 2 ()", "f() 1 2 ()", "g 3"], 2: ["g 3"]}
    answers = {p: labels(*found) for p, found in found_on.items()}
    text = " (f: 0 on process 2, 1 on process 0, 2 on process 1)"
    assert which_differ(answers) == text
    assert which_differ({0: labels(), 1: labels()}) == ""
    many = {0: labels(*"abcde"), 1: labels()}
    assert which_differ(many).endswith("; 2 more)")
