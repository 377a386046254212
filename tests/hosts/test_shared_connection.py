"""A connection that the person shares (ssh's `ControlMaster`) is used, is never ended, and its end is seen."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.hosts.left import Left, connections, processes_in
from tests.hosts.shared_connection import log_in, logins, lost, start, wait_until
from tests.testbed.hosts import TestBed


def test_a_session_goes_through_the_shared_connection_and_leaves_it_as_it_was(
    hosts: TestBed, left: Left
) -> None:
    with log_in(hosts) as shared:
        before, found = [logins(hosts, i) for i in (1, 2)], left.now()
        with start(shared) as session:
            session.run("import socket\nwhere = socket.gethostname()")
            assert [session.pull("where", on=str(p)) for p in (0, 1)] == ["h1", "h2"]
            assert [logins(hosts, i) for i in (1, 2)] == [before[0], before[1] + 1]
            assert len(connections(hosts, 1)) == 1
            assert not (shared.socket.parent / "h2").exists(), (
                "nothing is shared that was not before"
            )
        left.nothing(besides=found)
        assert shared.answers() and shared.master.poll() is None
    left.nothing()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_a_sessions_own_ssh_is_seen_and_ends_what_ran_there_but_not_the_shared_connection(
    hosts: TestBed, left: Left, temporary: Path, number: signal.Signals
) -> None:
    with log_in(hosts) as shared:
        found = left.now()
        with start(shared) as session:
            (own,) = (
                pid
                for pid, command in processes_in(temporary).items()
                if command.startswith("ssh ") and " h1 " in command
            )
            os.kill(own, number)
            wait_until(lambda: lost(session))
            wait_until(lambda: not hosts.processes(1))
            assert shared.answers()
        left.nothing(besides=found)
    left.nothing()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_shared_connection_is_seen_and_ends_what_ran_there(
    hosts: TestBed, left: Left, number: signal.Signals
) -> None:
    with log_in(hosts) as shared, start(shared) as session:
        shared.master.send_signal(number)
        wait_until(lambda: lost(session))
        wait_until(lambda: not hosts.processes(1))
    left.nothing()


def test_a_socket_that_a_killed_connection_has_left_is_no_obstacle(
    hosts: TestBed, left: Left
) -> None:
    with log_in(hosts) as shared:
        shared.master.kill()
        shared.master.wait()
        assert shared.socket.exists() and not shared.answers()
        before = logins(hosts, 1)
        with start(shared) as session:
            session.run("x = 1")
            assert logins(hosts, 1) == before + 1
    left.nothing()
