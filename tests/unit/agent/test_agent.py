"""The agent of a host: an order that it cannot obey is not the last."""

from __future__ import annotations

import fcntl
import io
import json
import os
import socket
import struct
import subprocess
import sys
import tempfile
import termios
from pathlib import Path
from typing import Any

import psutil
import pytest
from msgspec import structs

from nbdist.agent.agent import Agent
from nbdist.agent.processes import Children
from nbdist.contract.events import Events
from nbdist.contract.orders import Assignment, Keep, ReservePorts, to_line
from nbdist.contract.wire import encode
from nbdist.errors import WireError
from nbdist.version import __version__
from tests.waiting import has_ended, wait_for

ASSIGNMENT = Assignment(nbdist=__version__, cluster_id="c", preload=(), fork=True)


class Parent(Agent):
    """A parent whose events are kept, and that has an assignment already."""

    def __init__(self) -> None:
        self.written = io.StringIO()
        events = Events(self.written)
        super().__init__(Children(events), events, orders=0)

    def said(self, kind: str) -> list[dict[str, Any]]:
        events = [json.loads(line) for line in self.written.getvalue().splitlines()]
        return [event for event in events if event["event"] == kind]


@pytest.mark.parametrize(
    "order",
    [
        b"{",
        b"\xff\xfe",
        b"null",
        b"3",
        b'{"order": "start", "processes": 3}',
        b'{"order": "write_file", "id": "a"}',
        b'{"order": "fly"}',
        b'{"keep": 1}',
    ],
)
def test_an_order_of_a_wrong_shape_is_reported_and_the_next_is_obeyed(order: bytes) -> None:
    parent = Parent()
    parent.orders.assigned = True
    parent.orders.take(order + b"\n" + to_line(Keep()))
    assert parent.kept
    assert parent.orders.unread == b""
    (fault,) = parent.said("fault")
    assert socket.gethostname() in fault["text"]


def test_half_an_order_of_a_kernel_that_was_killed_takes_no_other_along() -> None:
    parent = Parent()
    parent.orders.assigned = True
    for number in (1, 2):
        parent.kept = False
        parent.orders.take(to_line(Keep())[:7])
        parent.orders.take(b"\n" + to_line(Keep()))
        assert parent.kept
        *_, fault = faults = parent.said("fault")
        assert len(faults) == number, "each is said"
        assert "after 7 bytes" in fault["text"]
        parent.orders.take(b"\n")
        assert parent.said("fault") == faults  # nothing was left to be ended


WITHOUT_ORDERS = """
import subprocess, sys, time
agent = subprocess.Popen([sys.executable, "-m", "nbdist.agent"], stdin=0, stdout=subprocess.PIPE)
print(agent.pid, flush=True)
time.sleep(100)
"""


def test_an_agent_ends_with_who_started_it_though_its_first_order_never_ends() -> None:
    orders, ours = os.pipe()
    command = (sys.executable, "-c", WITHOUT_ORDERS)
    with subprocess.Popen(command, stdin=orders, stdout=subprocess.PIPE, text=True) as kernel:
        assert kernel.stdout is not None
        agent = psutil.Process(int(kernel.stdout.readline()))
        os.write(ours, to_line(ASSIGNMENT)[:20])
        # It has read what there is, and knows by then who started it.
        wait_for(lambda: unread(orders) == 0)
        kernel.kill()
        kernel.wait()
        wait_for(lambda: has_ended(agent))
    os.close(orders)
    os.close(ours)


def unread(pipe: int) -> int:
    """Bytes in a pipe that nobody has read (pipe(7), FIONREAD)."""
    (number,) = struct.unpack("i", fcntl.ioctl(pipe, termios.FIONREAD, b"\0" * 4))
    return int(number)


def test_a_parent_that_cannot_read_what_it_is_for_ends() -> None:
    with pytest.raises(WireError, match="contains unknown field more"):
        Parent().orders.take(json.dumps({**encode(ASSIGNMENT), "more": 1}).encode() + b"\n")


def test_an_agent_of_another_version_says_so_and_reads_no_further() -> None:
    parent = Parent()
    with pytest.raises(SystemExit):
        parent.orders.take(b'{"order": "assign", "nbdist": "0.0.1", "what": "nobody knows"}\n')
    (said,) = parent.said("other_version")
    assert (said["host"], said["nbdist"]) == (socket.gethostname(), __version__)


@pytest.mark.parametrize("working", [True, False])
def test_an_agent_says_which_folder_it_cannot_use(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, working: bool
) -> None:
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path))
    gone = str(tmp_path / "gone")
    if not working:
        monkeypatch.setattr(tempfile, "tempdir", gone)
    folder = str(tmp_path) if working else None
    parent = Parent()
    with pytest.raises(SystemExit):
        parent.orders.take(to_line(structs.replace(ASSIGNMENT, folder=folder, cwd=gone)))
    (said,) = parent.said("refused")
    assert said["folder"].startswith(gone)
    assert (said["host"], said["working"]) == (socket.gethostname(), working)


def test_ports_of_processes_are_reserved_until_others_are_or_the_agent_ends() -> None:
    parent = Parent()
    parent.introduction.say(structs.replace(ASSIGNMENT, ports=2), "/tmp/folder")
    first = parent.said("host")[0]["ports"]
    assert len(first) == 2 and not any(map(free, first))
    parent.orders.assigned = True
    parent.orders.take(to_line(ReservePorts(number=1, count=3)))
    (reserved,) = parent.said("reserved")
    assert reserved["number"] == 1
    assert len(reserved["ports"]) == 3 and not any(map(free, reserved["ports"]))
    assert all(free(port) for port in set(first) - set(reserved["ports"]))
    parent.stop()
    assert all(map(free, reserved["ports"]))


def free(port: int) -> bool:
    """Whether it would be given to somebody who looks for one."""
    with socket.socket() as one:
        try:
            one.bind(("", port))
        except OSError:
            return False
    return True
