"""A session from its start to its end: its cells, and how it is restarted, left and stopped."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

from nbdist.contract.calls.engine import Complete, Completions, LastFailure
from nbdist.errors import LaunchError, ProcessError, SessionError, TargetError
from nbdist.launch.model.start_options import Rules
from nbdist.session import life
from nbdist.session.cells.history import read_history
from nbdist.session.recovery.in_place import IN_STEP
from nbdist.session.session import Session
from nbdist.spelling import Door, through
from tests.builders.live import LiveHosts, SentCell
from tests.waiting import wait_for


def hang(cell: SentCell) -> None:
    """It runs until a test, or an interrupt, ends it."""


def outcomes(session: Session) -> list[str]:
    return [past.outcome for past in session.history]


# -- the life ------------------------------------------------------------------------------------


def test_a_session_is_listed_while_it_lives_and_its_end_leaves_nothing(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    assert session.alive
    assert session.hosts == {0: "h1", 1: "h2"}
    assert [record.id for record in live.recorded()] == [session.id]
    assert "2 hosts" in session.describe()
    session.shutdown()
    assert not session.alive
    assert live.recorded() == []
    assert live.left() == []
    assert session.snapshot().state == "stopped"
    assert repr(session) == f"<nbdist.Session {session.id}: ended>"


def test_the_end_of_the_block_is_the_end_of_the_session(live: LiveHosts) -> None:
    with live.session("h1") as session:
        assert session.alive
    assert live.left() == []


@pytest.mark.parametrize("again", [Session.shutdown, Session.detach, Session.leave])
def test_a_session_that_has_ended_cannot_be_ended_again(live: LiveHosts, again: Any) -> None:
    session = live.session("h1")
    session.shutdown()
    again(session)
    assert live.left() == []


@pytest.mark.parametrize(
    "use",
    [
        lambda session: session.run("x"),
        lambda session: session.pull("x"),
        lambda session: session.push({"x": 1}),
        lambda session: session.shards("x"),
        lambda session: session.values("x"),
        lambda session: session.interrupt(),
        lambda session: session.stop_at_step(),
        lambda session: session.follow(1),
        lambda session: session.stacks(),
        lambda session: session.sync(),
        lambda session: session.recover(),
        lambda session: session.client,
        lambda session: session.out_of_step,
        lambda session: session.remarks,
    ],
)
def test_what_needs_processes_is_refused_after_the_end(live: LiveHosts, use: Any) -> None:
    session = live.session("h1")
    session.shutdown()
    asked = len(live.asked)
    with pytest.raises(SessionError, match=r"The session has ended\. %dist_init starts one\."):
        use(session)
    assert len(live.asked) == asked


def test_what_is_known_stays_after_the_end(live: LiveHosts) -> None:
    session = live.session("h1")
    session.run("x = 1")
    session.shutdown()
    assert outcomes(session) == ["finished"]
    assert len(session.cells()) == 1
    assert session.status()
    assert session.running == ()
    assert session.ask_idle(Complete(code="", cursor=0), timeout_s=1.0) is None


def test_a_session_that_is_kept_says_how_to_come_back_and_is_only_left(live: LiveHosts) -> None:
    session = live.session("h1", keep=True)
    assert session.kept
    assert any(f"%dist_init --attach {session.id}" in remark for remark in session.remarks)
    session.leave()
    assert not session.alive
    assert all(agent.running for agent in live.agents.values())
    (record,) = live.recorded()
    assert (record.id, record.attached) == (session.id, ())


def test_one_that_is_not_kept_is_stopped_where_its_kernel_leaves_it(live: LiveHosts) -> None:
    live.session("h1").leave()
    assert live.left() == []


def test_a_session_that_cannot_be_written_down_says_so_where_it_is_to_be_kept(
    live: LiveHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_STATE", "/dev/null/nowhere")
    session = live.session("h1", keep=True)
    assert any("neither listed nor attached" in remark for remark in session.remarks)


def test_where_the_beginning_is_interrupted_after_the_start_nothing_is_left(
    live: LiveHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(life, "write_down", interrupted)
    with pytest.raises(KeyboardInterrupt):
        live.session("h1", "h2")
    assert live.left() == []


def test_a_restart_stops_all_and_starts_the_same_plan_under_the_same_id(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    session.run("x = 1")
    before, first = session.id, dict(live.agents)
    live.client = type(live.client)(live)
    session.restart()
    assert session.alive
    assert session.id == before
    assert not any(agent.running for agent in first.values())
    assert session.history == []
    session.run("y = 2")
    assert [past.number for past in session.history] == [1]


def test_a_restart_that_fails_leaves_a_session_that_has_ended(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    live.answers["initialize"] = lambda p, _: SessionError("no GPU is free")
    live.client = type(live.client)(live)
    with pytest.raises(LaunchError, match="no GPU is free"):
        session.restart()
    assert not session.alive
    assert live.left() == []


# -- cells ---------------------------------------------------------------------------------------


def test_a_cell_goes_to_all_and_is_noted_when_it_has_ended(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    live.runs = lambda cell: cell.finish("hello\n")
    handle = session.run("\nprint('hello')", cell=7)
    assert [(cell.process_id, cell.code) for cell in live.sent] == [
        (0, "print('hello')"),
        (1, "print('hello')"),
    ]
    assert handle.done
    assert "hello" in str(handle.blocks())
    (past,) = session.history
    assert (past.number, past.targets, past.outcome) == (7, (0, 1), "finished")


@pytest.mark.parametrize("door", Door)
def test_a_cell_takes_along_whom_its_processes_speak_to(live: LiveHosts, door: Door) -> None:
    session = live.session("h1")
    with through(door):
        session.run("x = 1")
    assert live.sent[-1].label is not None
    assert live.sent[-1].label.door == door.value


def test_cells_are_counted_where_a_notebook_does_not(live: LiveHosts) -> None:
    session = live.session("h1")
    for _ in range(2):
        session.run("x")
    assert [past.number for past in session.history] == [1, 2]


def test_a_cell_for_some_goes_to_them_alone_and_one_for_nobody_to_none(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    session.run("x", on="1")
    assert [cell.process_id for cell in live.sent] == [1]
    with pytest.raises(TargetError):
        session.run("x", on="2")
    assert len(live.sent) == 1


def test_a_failure_is_raised_with_its_process_and_the_processes_are_proven_to_be_in_step(
    live: LiveHosts,
) -> None:
    session = live.session("h1", "h2")
    live.runs = lambda cell: cell.fail("ValueError", "no") if cell.process_id else cell.finish()
    with pytest.raises(ProcessError, match="ValueError: no"):
        session.run("f()")
    assert outcomes(session) == ["raised"]
    assert sorted(live.asked_of("step")) == [0, 1]
    assert not session.out_of_step


def test_where_they_are_not_in_step_and_may_not_be_repaired_what_computes_is_refused(
    live: LiveHosts,
) -> None:
    session = live.session("h1", "h2", rules=Rules(grace_s=0.0, recover=False))
    live.answers["prove"] = lambda p, _: {"passed": False, "alike": True, "error": "x"}
    live.runs = lambda cell: cell.fail("ValueError", "no") if cell.process_id else cell.finish()
    with pytest.raises(ProcessError, match="out of step"):
        session.run("f()")
    assert session.out_of_step
    sent = len(live.sent)
    with pytest.raises(SessionError, match="step"):
        session.run("total = step(x)")
    assert len(live.sent) == sent
    live.runs = SentCell.finish
    session.run("x")
    assert len(live.sent) == sent + 2, "what only looks may still run"


def test_a_cell_that_nobody_waits_for_is_busy_until_it_ends_and_then_history(
    live: LiveHosts,
) -> None:
    session = live.session("h1", "h2")
    live.runs = hang
    handle = session.run("train()", wait=False)
    assert not handle.done
    assert [listed.number for listed in session.cells()] == [1]
    with pytest.raises(SessionError, match="its values are available when that has ended"):
        session.values("w")
    with pytest.raises(SessionError, match="only while no cell runs"):
        session.push({"x": 1})
    for cell in live.sent:
        cell.finish()
    wait_for(lambda: outcomes(session) == ["finished"])
    session.sync()


def test_a_cell_is_written_down_for_all_processes_before_one_gets_it(live: LiveHosts) -> None:
    """Its kernel may be killed between two of them; another must see that some are in it."""
    session = live.session("h1", "h2", keep=True)
    folder = Path(session._life.engines.cluster.folder)
    noted: list[dict[int, str]] = []

    def run(cell: SentCell) -> None:
        noted.extend(dict(one.requests) for one in read_history(folder).running)
        cell.finish()

    live.runs = run
    session.run("x = 1")
    first, second = live.sent
    assert [cell.process_id for cell in live.sent] == [0, 1]
    assert noted == [{0: first.reply.msg_id, 1: second.reply.msg_id}] * 2
    assert read_history(folder).running == []


def test_the_next_cell_says_behind_which_it_waits(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    live.runs = hang
    session.run("train()", wait=False)
    handle = session.run("after()", wait=False)
    assert "queued behind cell 1 (processes 0, 1)" in str(handle.blocks())
    session.interrupt()
    wait_for(lambda: len(session.history) == 2)


def test_an_interrupt_ends_what_runs_and_says_what_that_was(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    assert session.interrupt() == "no cell is running"
    live.runs = hang
    handle = session.run("train()", wait=False)
    assert session.interrupt(1) == "interrupted: cell 1 (processes 0, 1)"
    with pytest.raises(ProcessError):
        handle.wait()
    assert outcomes(session) == ["interrupted"]
    with pytest.raises(SessionError, match="No cell 1 runs in the background"):
        session.interrupt(1)


def test_a_process_that_dies_in_a_cell_is_named_with_how_it_ended(live: LiveHosts) -> None:
    session = live.session("h1", "h2", rules=Rules(recover=False))
    live.runs = hang
    handle = session.run("train()", wait=False)
    live.exited("h2", 1, code=-9)
    with pytest.raises(ProcessError, match="killed by signal 9"):
        handle.wait()
    assert outcomes(session) == ["gone"]
    assert session.out_of_step
    with pytest.raises(TargetError, match=r"process 1 .* is gone: killed by signal 9"):
        session.run("x", on="1")


def test_without_a_cell_in_the_background_there_is_none_to_follow_or_stop(live: LiveHosts) -> None:
    session = live.session("h1")
    with pytest.raises(SessionError, match="No cell 3 runs in the background"):
        session.follow(3)
    with pytest.raises(SessionError, match="No cell runs in the background that could be stopped"):
        session.stop_at_step()


def test_a_debugger_is_opened_only_where_a_cell_has_failed(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    live.answers["failure"] = lambda p, _: LastFailure(error="ValueError: no" if p else None)
    with pytest.raises(SessionError, match="process 0"):
        session.debug("0,1")
    assert live.sent == []
    session.debug("1")
    assert [(cell.process_id, cell.code) for cell in live.sent] == [(1, "%debug")]


def test_waiting_for_all_ends_with_those_that_are_busy(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    live.answers["complete"] = lambda p, _: None if p else Completions(text="", matches=())
    began = time.monotonic()
    with pytest.raises(TimeoutError, match=r"process 1 still busy after 0\.01 s"):
        session.sync(timeout_s=0.01)
    assert time.monotonic() >= began


def test_why_is_the_last_failure_or_what_was_done_last(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    assert session.why() is None
    live.runs = lambda cell: cell.fail("ValueError", "no")
    with pytest.raises(ProcessError) as raised:
        session.run("f()")
    assert session.why() == raised.value.notice
    live.runs = SentCell.finish
    session.run("f()")
    assert session.why() == raised.value.notice, "nothing has happened since"
    assert session.recover() == session.why() == IN_STEP


# -- recovery ------------------------------------------------------------------------------------


def test_recovery_of_what_is_in_step_changes_nothing(live: LiveHosts) -> None:
    session = live.session("h1", "h2")
    assert session.recover() == session.why() == IN_STEP
    assert live.asked_of("save") == {}
