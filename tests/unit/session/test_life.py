"""Another kernel goes on with a session: with its cells, its numbers and what was known of its processes."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest

from nbdist.errors import ProcessError, SessionError
from nbdist.launch.sessions import registry
from nbdist.launch.start.pool import ForeignEngines
from nbdist.session import life
from tests.builders.engines import sent, trail
from tests.builders.live import LiveHosts, SentCell


def hang(cell: SentCell) -> None:
    """It runs until a test, or an interrupt, ends it."""


def left(live: LiveHosts, *, running: bool = False) -> Any:
    """A kept session that its kernel has left after one cell, or in the middle of a second one."""
    session = live.session("h1", "h2", keep=True)
    session.run("x = 1")
    if running:
        live.runs = hang
        session.run("train()", wait=False)
    session.detach()
    return session


def test_its_history_goes_on_and_cells_are_counted_on(live: LiveHosts) -> None:
    session = live.attach(left(live))
    assert "2 hosts" in session.describe() and "attached in" in session.describe()
    session.run("y = 2")
    assert [past.number for past in session.history] == [1, 2]


def test_a_cell_that_still_runs_is_followed_to_its_end(live: LiveHosts) -> None:
    session = live.attach(left(live, running=True))
    (handle,) = session.running
    assert not handle.done
    assert any("still run cell 2" in remark for remark in session.remarks)
    with pytest.raises(SessionError, match="only while no cell runs"):
        session.push({"x": 1})
    for cell in live.sent:
        if not cell.ended:
            cell.finish()
    session.sync()
    assert session.running == ()
    assert [(past.number, past.outcome) for past in session.history] == [
        (1, "finished"),
        (2, "finished"),
    ]


def test_one_that_fails_raises_where_it_is_waited_for(live: LiveHosts) -> None:
    session = live.attach(left(live, running=True))
    for cell in live.sent:
        if not cell.ended:
            cell.fail("ValueError", "no")
    with pytest.raises(ProcessError, match="ValueError: no"):
        session.sync()


def test_a_cell_that_another_kernel_follows_is_left_to_it(
    live: LiveHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "other_kernels", lambda session: {os.getpid()})
    session = live.attach(left(live, running=True))
    assert session.running == ()
    for cell in live.sent:
        if not cell.ended:
            cell.finish()


def test_a_kernel_that_leaves_follows_no_cell_any_longer_and_they_run_on(live: LiveHosts) -> None:
    session = live.attach(left(live, running=True))
    session.detach()
    assert not session.alive
    assert [cell.ended for cell in live.cells(0)] == [True, False]
    assert all(agent.running for agent in live.agents.values())
    session = live.attach(session)
    assert len(session.running) == 1
    for cell in live.sent:
        if not cell.ended:
            cell.finish()
    session.sync()


@pytest.mark.parametrize("unsettled", [False, True])
def test_what_the_kernel_before_has_not_made_sure_of_is_made_sure_of(
    live: LiveHosts, unsettled: bool
) -> None:
    session = left(live)
    live.answers["step"] = lambda p, a: trail(sent(unsettled=unsettled))
    live.asked.clear()
    attached = live.attach(session)
    assert not attached.out_of_step
    assert (live.asked_of("versions") != {}) == unsettled


def test_an_attachment_that_is_interrupted_leaves_the_processes_and_their_cells(
    live: LiveHosts, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = left(live, running=True)
    group: list[Any] = []

    def interrupted(runs: Any) -> Any:
        group.extend(runs)
        raise KeyboardInterrupt

    monkeypatch.setattr(life, "running_lines", interrupted)
    registry.attach(live.recorded()[0])
    with pytest.raises(KeyboardInterrupt):
        live.attach(session)
    assert live.recorded()[0].attached == ()
    (run,) = group
    assert run._left.is_set(), "nobody follows it any longer"
    assert live.client.closed
    assert all(agent.running for agent in live.agents.values())
    for agent in live.agents.values():
        agent.exit(0)


def test_one_that_somebody_else_has_started_is_only_left(live: LiveHosts) -> None:
    first = left(live)
    engines = first._life.engines.cluster.engines
    others: Any = SimpleNamespace(ids=[*engines.values()])
    session = live.attach(first, agents=ForeignEngines(others, engines))
    assert session.kept
    with pytest.raises(
        SessionError, match="has not started these processes and does not stop them"
    ):
        session.restart()
    assert session.alive
    session.shutdown()
    assert not session.alive
    assert all(agent.running for agent in live.agents.values())
    for agent in live.agents.values():
        agent.exit(0)
