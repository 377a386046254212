"""A session on other hosts that outlives its kernel: through the same ssh connections, found again by the next."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

import nbdist
from nbdist.errors import ProcessError
from nbdist.launch import registry
from tests.hosts.left import Left
from tests.integration.notebook import gone
from tests.testbed.hosts import TestBed

WAIT_SECONDS = 20.0

KERNEL = """
import sys, time
import nbdist
session = nbdist.start(hosts="h1:1,h2:1", ssh_config=sys.argv[1], platform="cpu", keep=True)
session.run("import jax, time\\nkept = 40 + jax.process_index()")
session.run("for i in range(600):\\n    print('tick', i)\\n    time.sleep(0.1)", wait=False)
time.sleep(1.0)
print("running", flush=True)
time.sleep(600)
"""


def wait_for(condition: Callable[[], Any]) -> None:
    until = time.monotonic() + WAIT_SECONDS
    while not condition() and time.monotonic() < until:
        time.sleep(0.05)
    assert condition()


def test_a_kept_session_goes_on_without_its_kernel_and_hosts_are_left_clean_when_it_is_stopped(
    hosts: TestBed, left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    command = [sys.executable, "-c", KERNEL, str(hosts.ssh_config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"running\n"
        kernel.send_signal(signal.SIGKILL)
    (record,) = registry.sessions()
    assert (record.hosts, record.attached) == (("h1", "h2"), ())
    connections = [psutil.Process(mark.pid) for mark in record.parents[1:]]
    assert all("ssh" in process.name() for process in connections)

    session = nbdist.attach(record.id)
    (cell,) = session.running
    before = str(cell.blocks())
    assert "tick 0" in before, "what was printed before, too"
    wait_for(lambda: len(str(cell.blocks())) > len(before))
    session.interrupt()
    with pytest.raises(ProcessError, match="interrupted"):
        session.sync()
    assert [session.pull("kept", on=str(p)) for p in (0, 1)] == [40, 41]
    assert [p.pid for p in connections] == [mark.pid for mark in registry.find("last").parents[1:]]
    pid = session.snapshot().processes[1].pid
    session.run(f"import os\nassert os.getpid() == {pid}", on="1")
    with pytest.raises(ProcessError, match=r"process 1 \(host h2\) killed by signal 9"):
        session.run("os.kill(os.getpid(), 9)", on="1")
    session.detach()
    assert all(process.is_running() for process in connections)

    again = nbdist.attach("last")
    assert [p.state for p in again.snapshot().processes] == ["idle", "lost"]
    again.shutdown()
    assert not registry.sessions()
    assert not gone(connections, within_s=5)
    assert not list((tmp_path / "sessions").iterdir())
    left.nothing(within_s=5)
