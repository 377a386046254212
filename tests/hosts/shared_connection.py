"""A connection to a host that a person shares (ssh's `ControlMaster`), and a session that goes through it."""

from __future__ import annotations

import os
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import nbdist
from nbdist import Session
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
