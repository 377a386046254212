"""A connection that the person shares (ssh's `ControlMaster`) is used, is never ended, and its end is seen."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

import nbdist
from nbdist import Session
from tests.hosts.left import Left, connections, processes_in
from tests.testbed.hosts import TestBed

SECONDS = 60.0

BY_HAND = """
Host *
  RemoteCommand tmux new -A
  RequestTTY force
  ControlMaster auto
  ControlPersist yes
  ControlPath {folder}/%n
"""
"""What a person may have for logging in by hand, before the options of the hosts: its values count."""


def wait_until(condition: Callable[[], object]) -> None:
    until = time.monotonic() + SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    assert condition()


@dataclass
class Shared:
    """The shared connection to h1, opened by hand."""

    config: Path
    socket: Path
    master: subprocess.Popen[bytes]

    def answers(self) -> bool:
        command = ("ssh", "-F", str(self.config), "-O", "check", "h1")
        return subprocess.run(command, capture_output=True, check=False).returncode == 0


@contextmanager
def log_in(hosts: TestBed) -> Iterator[Shared]:
    # The path of a socket is short (unix(7)).
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        config = folder / "config"
        config.write_text(BY_HAND.format(folder=folder) + hosts.ssh_config.read_text())
        command = ("ssh", "-F", str(config), "-oRemoteCommand=none", "-oControlMaster=yes", "-N")
        # Not one of those that a test of what is left looks for.
        beside = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
        with subprocess.Popen((*command, "-oControlPersist=no", "h1"), env=beside) as master:
            shared = Shared(config, folder / "h1", master)
            try:
                wait_until(shared.answers)
                yield shared
            finally:
                master.terminate()


def logins(bed: TestBed, i: int) -> int:
    """How often somebody has logged in to host i since it was made."""
    return (bed.folder / f"h{i}" / "log").read_text().count("Accepted publickey")


def start(shared: Shared) -> Session:
    return nbdist.start(hosts="h1:1,h2:1", ssh_config=str(shared.config))


def lost(session: Session) -> bool:
    return any("Process 0 is lost" in notice.title for notice in session.snapshot().notices)


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


def test_a_host_that_is_cut_off_is_given_up_and_left_clean_once_the_shared_connection_works_again(
    hosts: TestBed, left: Left
) -> None:
    with log_in(hosts) as shared, start(shared) as session:
        hosts.cut(1)
        try:
            wait_until(lambda: lost(session))
        finally:
            hosts.heal(1)
        wait_until(lambda: not hosts.processes(1))
        assert shared.answers()
    left.nothing()
