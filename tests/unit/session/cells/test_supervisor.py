"""A cell is seen through: who waits for a proof, who is interrupted, cut, and given up, and when."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from msgspec import structs

from nbdist.session.cells import leaving
from nbdist.session.cells import supervisor as conduct
from nbdist.session.cells.leaving import Terms
from nbdist.session.cells.outcome import ProcessOutcome
from nbdist.session.cells.supervisor import CellSupervisor, Remedies
from nbdist.session.cells.watch import InVain
from tests.builders.clock import Clock
from tests.builders.outcomes import at_prompt, stands
from tests.builders.reports import running


class FakeExecution:
    """Two processes in a cell; `script` maps seconds after the start to a change of standings."""

    def __init__(self, clock: Clock, script: dict[float, Any]) -> None:
        self.clock, self.script, self.started = clock, dict(script), clock.now
        self.now: dict[int, ProcessOutcome] = {p: stands(p) for p in (0, 1)}
        self.notes: list[str] = []
        self.standing: list[str | None] = []
        self.marks: list[tuple[list[int], str]] = []
        self.cuts: list[list[int]] = []
        self.withdrawn: list[int] = []
        self.answers = True
        self.output = self
        self.steps: dict[int, Any] = {}

    def note(self, text: str) -> None:
        self.notes.append(text)

    def meanwhile(self, text: str | None) -> None:
        self.standing.append(text)

    def pending(self) -> list[Any]:
        return []

    def outcomes(self) -> dict[int, ProcessOutcome]:
        for moment in sorted(self.script):
            if self.clock.now - self.started >= moment:
                change = self.script.pop(moment)
                if isinstance(change, BaseException):
                    raise change
                self.change(change)
        return dict(self.now)

    def change(self, outcomes: dict[int, ProcessOutcome]) -> None:
        self.now.update(outcomes)

    def mark(self, ids: Sequence[int], outcome: Any) -> None:
        self.marks.append((list(ids), outcome))
        if outcome == "stuck":
            self.change({p: stands(p, "stuck") for p in ids})

    def withdraw(self, ids: Sequence[int]) -> tuple[int, ...]:
        self.withdrawn += ids
        return tuple(ids) if self.answers else ()

    def mark_cut(self, ids: Sequence[int]) -> None:
        self.cuts.append(list(ids))


def proving(*ids: int) -> dict[int, ProcessOutcome]:
    return {p: stands(p, proving=True) for p in ids}


class Scene:
    """A supervisor, its execution, and what was asked of the processes, each with its moment."""

    def __init__(
        self,
        clock: Clock,
        script: dict[float, Any],
        *,
        remedies: dict[str, Any] | None = None,
        answer: Any = lambda: None,
        leaves: Any = lambda: False,
        progress: Any = lambda outcomes, ends_at: None,
        **terms: Any,
    ) -> None:
        self.execution = FakeExecution(clock, script)
        self.asked: list[tuple[str, Any, float]] = []
        self.clock = clock
        self.supervisor = CellSupervisor(
            execution=self.execution,  # type: ignore[arg-type]
            interrupt=lambda ids: self.ask("interrupt", ids),
            refresh=lambda: None,
            remedies=replace(
                Remedies(
                    abandon=lambda ids: self.ask("abandon", ids),
                    join=lambda execution: self.ask("join", None) or True,
                    free=lambda ids: self.ask("free", ids),
                ),
                **(remedies or {}),
            ),
            terms=Terms(**{"grace_s": 3.0, "give_up_s": 10.0, **terms}),
            answer=answer,
            leaves=leaves,
            progress=progress,
        )

    def ask(self, what: str, ids: Any) -> None:
        self.asked.append((what, ids, round(self.clock.now - self.execution.started, 1)))

    def ends(self) -> dict[int, str]:
        return {p: s.outcome for p, s in self.supervisor.until_end().items()}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(conduct, "time", made)
    return made


def both(outcome: Any) -> dict[int, ProcessOutcome]:
    return {p: stands(p, outcome) for p in (0, 1)}


@pytest.mark.parametrize("leaves", [True, False])
def test_an_interrupt_before_the_end_of_the_kernel_leaves_a_cell_that_is_to_go_on(
    clock: Clock, leaves: bool
) -> None:
    script = {1.0: KeyboardInterrupt(), 2.0: both("interrupted")}
    scene = Scene(clock, script, leaves=lambda: leaves)
    with pytest.raises(KeyboardInterrupt):
        scene.ends()
    assert scene.supervisor.left is leaves
    assert [what for what, *_ in scene.asked][:1] == ([] if leaves else ["interrupt"])


def test_a_cell_that_all_finish_is_left_alone(clock: Clock) -> None:
    scene = Scene(clock, {1.0: both("finished")})
    assert scene.ends() == {0: "finished", 1: "finished"}
    assert (scene.asked, scene.execution.notes) == ([], [])


def test_proofs_in_which_all_wait_are_joined_once_and_waited_for(clock: Clock) -> None:
    scene = Scene(clock, {1.0: proving(0, 1), 60.0: both("finished")})
    assert scene.ends() == {0: "finished", 1: "finished"}
    assert [what for what, *_ in scene.asked] == ["join"]


def test_a_failed_process_is_asked_to_take_part_at_once(clock: Clock) -> None:
    failed = {1: stands(1, "raised", error="ValueError: x", time=1.0)}
    scene = Scene(clock, {1.0: {**proving(0), **failed}, 1.5: {0: stands(0, "finished")}})
    assert scene.ends() == {0: "finished", 1: "raised"}
    assert [(what, ids) for what, ids, _ in scene.asked] == [("join", None)]


def test_a_proof_that_cannot_pass_is_abandoned_without_a_signal(clock: Clock) -> None:
    failed = {1: stands(1, "raised", error="ValueError: x", time=1.0)}
    scene = Scene(
        clock,
        {1.0: {**proving(0), **failed}, 1.3: {0: stands(0, "finished")}},
        remedies={"join": lambda execution: False},
    )
    scene.ends()
    assert [(what, ids) for what, ids, _ in scene.asked] == [("abandon", [0])]
    assert scene.execution.marks == [([0], "interrupted")]


def test_those_that_compute_get_a_signal_and_those_that_wait_in_a_proof_none(clock: Clock) -> None:
    failed = {1: stands(1, "raised", error="ValueError: x", time=1.0)}
    scene = Scene(clock, {1.0: {**proving(0), **failed}, 9.0: {2: stands(2, "interrupted")}})
    scene.execution.now[2] = stands(2)
    scene.execution.script[9.0] = {0: stands(0, "finished"), 2: stands(2, "interrupted")}
    scene.ends()
    asked = [(what, ids) for what, ids, _ in scene.asked]
    assert asked[:2] == [("abandon", [0]), ("interrupt", [2])]
    assert scene.execution.marks == [([0, 2], "interrupted")]


def test_collectives_are_cut_after_an_interrupt_that_is_not_heard_until_it_is(clock: Clock) -> None:
    failed = {1: stands(1, "raised", error="ValueError: x", time=1.0)}
    scene = Scene(clock, {0.0: failed, 5.0: {0: stands(0, "interrupted")}})
    scene.ends()
    (first, ids, interrupted), (second, cut, when), (third, again, later) = scene.asked
    assert (first, ids, second, cut) == ("interrupt", [0], "free", [0])
    assert 3.0 <= interrupted < 3.2
    # Sooner than after an interrupt of a cell in which nobody has failed.
    assert leaving.FAILED_CUT_SECONDS <= round(when - interrupted, 3) < leaving.CUT_SECONDS
    # While it is on its way out, it does nothing when asked.
    assert (third, again) == ("free", [0])
    assert leaving.CUT_AGAIN_SECONDS <= round(later - when, 3) < leaving.CUT_AGAIN_SECONDS + 0.2
    assert scene.execution.cuts == [[0], [0]]


def test_one_that_had_not_begun_when_it_was_interrupted_is_interrupted_when_it_begins(
    clock: Clock,
) -> None:
    scene = Scene(
        clock,
        {
            1.0: KeyboardInterrupt(),
            1.2: {0: stands(0, "interrupted")},
            5.0: {1: stands(1)},
            5.2: {1: stands(1, "interrupted")},
        },
    )
    scene.execution.now[1] = stands(1, begun=False)
    with pytest.raises(KeyboardInterrupt):
        scene.ends()
    first, *_, last = (entry for entry in scene.asked if entry[0] == "interrupt")
    # A signal would interrupt what runs there before this cell.
    assert first[1] == [0]
    assert scene.execution.withdrawn == [1]
    assert last[1] == [1]
    assert 5.0 <= last[2] < 5.2


def test_one_that_cannot_say_whether_it_has_begun_gets_a_signal(clock: Clock) -> None:
    scene = Scene(clock, {1.0: KeyboardInterrupt(), 1.2: both("interrupted")})
    scene.execution.now[1] = stands(1, begun=False)
    scene.execution.answers = False
    with pytest.raises(KeyboardInterrupt):
        scene.ends()
    assert [entry[:2] for entry in scene.asked] == [("interrupt", [1]), ("interrupt", [0])]


def test_one_that_is_taken_back_in_time_ends_the_cell_at_once(clock: Clock) -> None:
    scene = Scene(clock, {1.0: KeyboardInterrupt(), 1.1: both("not run")})
    scene.execution.now = {p: stands(p, begun=False) for p in (0, 1)}
    with pytest.raises(KeyboardInterrupt):
        scene.ends()
    assert scene.asked == []


def test_one_that_does_not_come_back_is_said_to_and_given_up_after_the_time_given(
    clock: Clock,
) -> None:
    failed = {1: stands(1, "raised", error="ValueError: x", time=1.0)}
    scene = Scene(clock, {0.0: failed}, give_up_s=20.0)
    assert scene.ends() == {0: "stuck", 1: "raised"}
    notes = "\n".join(scene.execution.notes)
    assert "process 0   not stopped by the interrupt yet; given up in 16.6 s (--give-up)" in notes
    assert "process 0   stuck: still running 20.0 s after the interrupt" in notes
    assert 23.0 <= clock.now - scene.execution.started < 24.0


def test_of_one_that_compiles_is_said_that_no_interrupt_reaches_it(clock: Clock) -> None:
    failed = {
        0: stands(0, activity=structs.replace(running(), state="compiling")),
        1: stands(1, "raised", error="ValueError: x", time=1.0),
    }
    scene = Scene(clock, {0.0: failed})
    assert scene.ends() == {0: "stuck", 1: "raised"}
    assert "process 0 cannot be interrupted before the compilation has ended" in "\n".join(
        scene.execution.notes
    )


def test_a_process_that_is_cut_gets_time_to_come_back_however_short_the_limit(clock: Clock) -> None:
    failed = {1: stands(1, "raised", error="ValueError: x", time=1.0)}
    scene = Scene(clock, {0.0: failed, 4.2: {0: stands(0, "interrupted")}}, give_up_s=0.0)
    assert scene.ends() == {0: "interrupted", 1: "raised"}


# A cell in an `await` finishes: the interrupt comes to it when it has ended.
@pytest.mark.parametrize("end", ["interrupted", "finished"])
def test_the_limit_of_a_cell_interrupts_it(clock: Clock, end: str) -> None:
    scene = Scene(clock, {7.0: both(end)}, timeout_s=5.0)
    assert scene.ends() == {0: end, 1: end}
    assert scene.supervisor.watch.timed_out
    assert scene.asked[0][0] == "interrupt"
    assert 5.0 <= scene.asked[0][2] < 5.2


def test_a_second_interrupt_ends_the_wait(clock: Clock) -> None:
    scene = Scene(clock, {1.0: KeyboardInterrupt(), 1.3: KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        scene.supervisor.until_end()
    assert ([0, 1], "stuck") in scene.execution.marks
    assert clock.now - scene.execution.started < 2.0


def test_in_a_session_out_of_step_waits_that_cannot_end_are_interrupted(clock: Clock) -> None:
    scene = Scene(clock, {0.5: waiting(0, 1), 2.0: both("interrupted")}, out_of_step=True)
    scene.ends()
    assert scene.asked[0][:2] == ("interrupt", [0, 1])
    assert (
        "waiting for something that cannot arrive; the session is out of step"
        in scene.supervisor.watch.seen[0]
    )
    assert scene.execution.notes == [], "a line of the details"


def waiting(*ids: int, seconds: float = 9.0) -> dict[int, ProcessOutcome]:
    activity = running(cell=1, source="y = step(x)", cell_seconds=9.0, line_seconds=seconds)
    return {p: stands(p, activity=activity) for p in ids}


def test_one_that_waits_in_vain_is_interrupted_and_those_in_the_proof_are_let_go(
    clock: Clock,
) -> None:
    script = {0.5: {**proving(0), **waiting(1)}, 0.7: both("interrupted")}
    asked: list[list[int]] = []
    found = InVain("y needs both", certain=True)

    def in_vain(execution: Any, ids: Any) -> InVain:
        asked.append(list(ids))
        return found

    scene = Scene(clock, script, remedies={"in_vain": in_vain})
    scene.ends()
    assert asked == [[1]]
    assert [(what, ids) for what, ids, _ in scene.asked] == [("abandon", [0]), ("interrupt", [1])]
    assert scene.supervisor.watch.in_vain == found.text  # said in the error
    assert scene.execution.notes == []


def test_where_all_wait_that_is_said_as_long_as_it_is_so_and_nobody_is_interrupted(
    clock: Clock,
) -> None:
    found = InVain("all processes wait", certain=False)
    scene = Scene(
        clock, {0.5: waiting(0, 1), 30.0: both("finished")}, remedies={"in_vain": lambda *_: found}
    )
    assert scene.ends() == {0: "finished", 1: "finished"}
    assert scene.asked == [] and scene.execution.notes == []
    (said,) = {text for text in scene.execution.standing if text is not None}
    first, second, last = said.splitlines()
    assert (first, second) == (found.text, "processes 0, 1   waiting at line 4: y = step(x)")
    assert "interrupt" in last, "the person decides"


def test_what_all_wait_for_is_still_said_when_an_interrupt_has_ended_it(clock: Clock) -> None:
    found = InVain("all processes wait", certain=False)
    script = {0.5: waiting(0, 1), 30.0: KeyboardInterrupt(), 30.5: both("interrupted")}
    scene = Scene(clock, script, remedies={"in_vain": lambda *_: found})
    with pytest.raises(KeyboardInterrupt):
        scene.ends()
    assert scene.supervisor.watch.waiting == found.text, "said in the error"
    assert scene.supervisor.watch.seen == ("processes 0, 1   waiting at line 4: y = step(x)",)
    assert scene.execution.standing[-1] is None


def test_what_is_said_of_a_failure_counts_down_and_goes(clock: Clock) -> None:
    failed = {1: stands(1, "raised", error="ValueError: x", time=1.0)}
    ends_at: list[float | None] = []
    clock.time = lambda: clock.now + 5000.0  # type: ignore[attr-defined]
    scene = Scene(
        clock,
        {0.0: {**failed, **waiting(0)}, 3.5: {0: stands(0, "interrupted")}},
        progress=lambda outcomes, at: ends_at.append(at),
    )
    began = clock.now
    scene.ends()
    # Told once for the failure and once for the end, not at every look.
    assert len(ends_at) == 2 and ends_at[0] == pytest.approx(5000.0 + began + 3.0, abs=0.2)
    said = [text for text in scene.execution.standing if text is not None]
    assert (
        "process 0   waiting at line 4: y = step(x) - will be interrupted in 2 s"
        in said[-1] + said[0]
    )
    assert scene.execution.standing[-1] is None
    assert scene.execution.notes == []


def test_a_wait_with_a_limit_gives_the_cell_back(clock: Clock) -> None:
    scene = Scene(clock, {9.0: both("finished")})
    assert scene.supervisor.step_until(clock.now + 1.0) is None
    assert scene.supervisor.step_until(clock.now + 60.0) is not None
    assert scene.asked == []


def test_nobody_is_late_while_a_process_is_at_a_prompt(clock: Clock) -> None:
    failed = stands(0, "raised", error="ValueError: x", time=1.0)
    script = {1.0: {1: at_prompt(1)}, 2.0: {0: failed}, 100.0: {1: stands(1)}}
    scene = Scene(clock, {**script, 102.0: {1: stands(1, "finished")}}, timeout_s=10.0)
    assert scene.ends() == {0: "raised", 1: "finished"}
    assert scene.asked == []
    assert "in line 2, step(); the others wait" in scene.execution.notes[0]
    assert not scene.supervisor.watch.timed_out


def test_when_it_has_gone_on_all_are_as_late_as_they_were_before(clock: Clock) -> None:
    script = {1.0: {1: at_prompt(1)}, 100.0: {1: stands(1)}, 120.0: both("interrupted")}
    scene = Scene(clock, script, timeout_s=5.0)
    scene.ends()
    (what, ids, when), *_ = scene.asked
    assert (what, ids) == ("interrupt", [0, 1])
    assert 104.0 <= when < 104.5
    assert scene.supervisor.watch.timed_out


def test_who_is_at_a_prompt_is_said_once(clock: Clock) -> None:
    steps = {float(n): {1: at_prompt(1, n)} for n in range(1, 9, 2)}
    between = {float(n): {1: stands(1)} for n in range(2, 10, 2)}
    scene = Scene(clock, {**steps, **between, 20.0: both("finished")})
    scene.ends()
    assert len(scene.execution.notes) == 1


def test_a_process_that_comes_to_a_prompt_after_an_interrupt_is_interrupted_there(
    clock: Clock,
) -> None:
    script: dict[float, Any] = {1.0: {1: at_prompt(1)}, 3.0: KeyboardInterrupt()}
    script |= {4.0: {1: at_prompt(1, 2)}, 6.0: both("interrupted")}
    scene = Scene(clock, script, answer=lambda: scene.ask("answer", None))
    with pytest.raises(KeyboardInterrupt):
        scene.ends()
    interrupts = [(ids, when) for what, ids, when in scene.asked if what == "interrupt"]
    assert [ids for ids, _ in interrupts] == [[0, 1], [1]]
    assert 3.0 <= interrupts[0][1] < 3.5 and 4.0 <= interrupts[1][1] < 4.5
    assert max(when for what, _, when in scene.asked if what == "answer") < 3.5


def test_the_time_of_a_cell_that_is_followed_in_parts_is_counted_from_its_beginning(
    clock: Clock,
) -> None:
    scene = Scene(clock, {20.0: both("interrupted")}, timeout_s=5.0)
    while scene.supervisor.step_until(clock.now + 0.5) is None:
        pass
    assert scene.supervisor.watch.timed_out
