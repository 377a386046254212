"""What is asked of processes in the middle of a cell, of which some may answer and some not."""

from __future__ import annotations

import pytest

from nbdist.contract.asides import (
    CompareBefore,
    Digests,
    GiveLine,
    LineTaken,
    NativeStacks,
    ReadNativeStacks,
    ReadStacks,
    StepsBegun,
    StopAtStep,
    Threads,
    ThreadStack,
    TypedLine,
)
from nbdist.errors import SessionError
from nbdist.session import reports
from nbdist.session.session import Session
from tests.builders.live import LiveHosts, SentCell
from tests.waiting import wait_for


@pytest.fixture
def session(live: LiveHosts, monkeypatch: pytest.MonkeyPatch) -> Session:
    """In a cell on both processes."""
    # Who answers does so at once; who is silent is not waited for.
    monkeypatch.setattr(reports, "STACK_SECONDS", 0.01)
    made = live.session("h1", "h2")
    live.runs = lambda cell: None
    made.run("train()", wait=False)
    return made


def end(live: LiveHosts) -> None:
    live.runs = SentCell.finish
    for cell in live.sent:
        cell.finish()


def threads(text: str) -> Threads:
    return Threads(threads=(ThreadStack(name="MainThread", lines=(text,)),))


def test_all_leave_a_cell_before_the_same_step(live: LiveHosts, session: Session) -> None:
    runs: set[int] = set()

    def stop(process_id: int, question: StopAtStep) -> StepsBegun:
        runs.add(question.run)
        return StepsBegun(steps=7 + process_id)

    live.says[StopAtStep] = stop
    assert session.stop_at_step() == "cell 1 stops before the same step on processes 0, 1"
    assert len(runs) == 1
    for cell in live.sent:
        cell.fail("KeyboardInterrupt")
    wait_for(lambda: [past.outcome for past in session.history] == ["interrupted"])


def test_one_that_has_stopped_before_its_answer_is_here_was_stopped_and_has_not_failed(
    live: LiveHosts, session: Session
) -> None:
    def stop(process_id: int, question: object) -> StepsBegun:
        if process_id == 0:
            for cell in live.sent:
                cell.fail("StoppedBeforeStep", "stopped before step 7")
            wait_for(lambda: session.history)
        return StepsBegun(steps=7)

    live.says[StopAtStep] = stop
    assert "stops before" in session.stop_at_step()
    assert [past.outcome for past in session.history] == ["interrupted"]


def test_one_that_has_not_said_that_it_stops_and_is_interrupted_has_failed(
    live: LiveHosts, session: Session
) -> None:
    live.says[StopAtStep] = lambda p, _: None
    session.stop_at_step()
    for cell in live.sent:
        cell.fail("KeyboardInterrupt")
    wait_for(lambda: [past.outcome for past in session.history] == ["raised"])


def test_one_that_does_not_answer_is_named(live: LiveHosts, session: Session) -> None:
    live.says[StopAtStep] = lambda p, _: None if p else StepsBegun(steps=7)
    assert "process 1 did not answer; %dist_interrupt interrupts it" in session.stop_at_step()
    end(live)


def test_a_cell_that_waits_behind_another_has_no_step_to_stop_at(
    live: LiveHosts, session: Session
) -> None:
    live.says[StopAtStep] = lambda p, _: StepsBegun(steps=None if p else 7)
    assert "cell 1 has not started on process 1" in session.stop_at_step()
    end(live)


def test_equal_stacks_are_shown_once_and_silent_processes_named(
    live: LiveHosts, session: Session
) -> None:
    live.says[ReadStacks] = lambda p, _: threads("train.py, line 3")
    assert session.stacks() == "processes 0, 1\n  MainThread\n    train.py, line 3"
    live.says[ReadStacks] = lambda p, _: None if p else threads("train.py, line 3")
    assert "process 1   no answer: the interpreter is busy in one long call" in session.stacks()
    live.says[ReadNativeStacks] = lambda p, _: NativeStacks(text="  native")
    assert session.stacks(native=True) == "processes 0, 1\n  native"
    end(live)


def test_those_that_somebody_else_has_started_are_out_of_reach(
    live: LiveHosts, session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        type(session._life.engines.cluster.agents), "reaches_past_main_threads", False
    )
    with pytest.raises(SessionError, match="cannot read their stacks"):
        session.stacks()
    with pytest.raises(SessionError, match="%dist_interrupt interrupts it"):
        session.stop_at_step()
    end(live)


def test_digests_of_busy_processes_are_none_and_of_all_others_what_each_says(
    live: LiveHosts, session: Session
) -> None:
    end(live)
    session.sync()
    session.status()
    found = session._life.engines.asides
    live.says[CompareBefore] = lambda p, question: Digests(digests={"cell": question.code})
    assert found.digests([0, 1], "w") == {0: {"cell": "w"}, 1: {"cell": "w"}}
    found._asking.ask = lambda *_, **__: {0: Digests(digests={"cell": "w"})}  # type: ignore[method-assign]
    assert found.digests([0, 1], "w") is None, "one of them did not answer soon"


def test_a_line_for_the_debugger_is_sent_until_it_is_said_to_be_there(
    live: LiveHosts, session: Session
) -> None:
    answers = iter([None, LineTaken(taken=True)])
    live.says[GiveLine] = lambda p, _: next(answers)
    assert session._life.engines.asides.reply(1, 11, TypedLine(text="c")) is True
    live.says[GiveLine] = lambda p, _: LineTaken(taken=False)
    assert session._life.engines.asides.reply(1, 12, TypedLine(text="c")) is False
    end(live)
