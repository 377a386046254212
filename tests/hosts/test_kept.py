"""A session on other hosts that outlives its kernel: through the same ssh connections, found again by the next."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import nbdist
from nbdist import Session, cli
from nbdist.errors import ProcessError, SessionError
from nbdist.launch.sessions import registry
from nbdist.launch.sessions.registry import Record
from tests.hosts.left import Left
from tests.integration.notebook import gone
from tests.testbed.hosts import TestBed
from tests.testbed.slurm import Slurm
from tests.waiting import wait_for

KERNEL = """
import sys, time
import nbdist
session = nbdist.start(platform="cpu", keep=True, **eval(sys.argv[1]))
session.run("import itertools, jax, time\\nkept = 40 + jax.process_index()")
ticks = "for i in itertools.count():\\n    print('tick', i)\\n    time.sleep(0.1)"
session.run(ticks, wait=False)
time.sleep(1.0)
print("running", flush=True)
time.sleep(600)
"""


def left_by_a_killed_kernel(kernel_code: str = KERNEL, **options: object) -> Record:
    """A kept session, in the middle of a cell unless other code is given, and nobody there."""
    command = [sys.executable, "-c", kernel_code, repr(options)]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"running\n"
        kernel.send_signal(signal.SIGKILL)
    (record,) = registry.sessions()
    return record


def taken_up(record: Record) -> Session:
    """The session again: in its cell, whose output goes on, and idle with its variables after an interrupt."""
    session = nbdist.attach(record.id)
    (cell,) = session.running
    before = str(cell.blocks())
    assert "tick 0" in before  # what was printed before, too
    wait_for(lambda: len(str(cell.blocks())) > len(before))
    session.interrupt()
    with pytest.raises(ProcessError, match="interrupted"):
        session.sync()
    assert [session.pull("kept", on=str(p)) for p in (0, 1)] == [40, 41]
    return session


@pytest.mark.parametrize("tunnel", [False, True])
def test_a_kept_session_goes_on_without_its_kernel_and_hosts_are_left_clean_when_it_is_stopped(
    hosts: TestBed, left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tunnel: bool
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    config = str(hosts.ssh_config)
    record = left_by_a_killed_kernel(hosts="h1:1,h2:1", ssh_config=config, tunnel=tunnel)
    assert (record.hosts, record.attached) == (("h1", "h2"), ())
    connections = [psutil.Process(mark.pid) for mark in record.parents[1:]]
    assert all("ssh" in process.name() for process in connections)

    session = taken_up(record)
    assert [p.pid for p in connections] == [mark.pid for mark in registry.find("last").parents[1:]]
    pid = session.snapshot().processes[1].pid
    session.run("import os")
    session.run(f"assert os.getpid() == {pid}", on="1")
    with pytest.raises(ProcessError, match=r"Process 1 \(host h2\) was killed by signal 9"):
        session.run("os.kill(os.getpid(), 9)", on="1")
    with pytest.raises(SessionError, match="kept was copied from process 0"):
        session.pull("kept", on="1")
    assert session.pull("kept", on="1") == 40  # the names of process 0
    replaced = session.snapshot().processes[1].pid
    assert replaced != pid
    session.detach()
    assert all(process.is_running() for process in connections)

    again = nbdist.attach("last")
    assert [p.state for p in again.snapshot().processes] == ["idle", "idle"]
    again.run(f"assert os.getpid() == {replaced}", on="1")
    again.shutdown()
    assert not registry.sessions()
    assert not gone(connections)
    assert not list((tmp_path / "sessions").iterdir())
    left.nothing()


def check_a_job(record: Record, left: Left) -> None:
    """A kept job is found again, left again, and ended from outside."""
    taken_up(record).detach()
    assert cli.main(["stop", "last"]) == 0
    assert not registry.sessions()
    left.nothing()


def test_a_kept_job_of_slurms_goes_on_and_is_cancelled_when_it_is_stopped(
    slurm: Slurm, left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    record = left_by_a_killed_kernel(slurm=True, nodes=2, ntasks_per_node=1)
    assert len(slurm.jobs()) == 1
    check_a_job(record, left)
    wait_for(lambda: not slurm.jobs())


def test_kept_ranks_of_mpirun_go_on_and_end_when_they_are_stopped(
    mpi_hosts: TestBed, left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    config = str(mpi_hosts.ssh_config)
    record = left_by_a_killed_kernel(mpi=True, hosts="h1:1,h2:1", ssh_config=config)
    check_a_job(record, left)


def test_a_kept_job_that_waits_is_cancelled_when_its_kernel_is_killed(
    slurm: Slurm, left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    options = {"slurm": True, "nodes": 1, "ntasks_per_node": 1, "partition": "closed"}
    with subprocess.Popen([sys.executable, "-c", KERNEL, repr(options)]) as kernel:
        wait_for(slurm.jobs)
        kernel.send_signal(signal.SIGKILL)
    wait_for(lambda: not slurm.jobs())
    left.nothing()


TRAINED = """
import sys, time
import nbdist
session = nbdist.start(platform="cpu", keep=True, copies_s=0, devices_per_process=1, **eval(sys.argv[1]))
session.run('''
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.process_count(),), ("data",))
w = jax.device_put(np.arange(12.0), NamedSharding(mesh, P("data")))
w = jax.jit(lambda w: w + 1)(w)
''')
print("running", flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("back", [False, True], ids=["off", "booted again"])
def test_a_host_that_goes_away_while_nobody_is_there_is_named_and_taken_back(
    hosts: TestBed, left: Left, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, back: bool
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    config = str(hosts.ssh_config)
    record = left_by_a_killed_kernel(TRAINED, hosts="h1:1,h2:1,h3:1", ssh_config=config)
    hosts.crash(2)
    if back:
        hosts.boot(2)
    session = nbdist.attach(record.id)
    wait_for(lambda: session.out_of_step)
    assert "Process 1 on h2" in session.status()
    with pytest.raises(SessionError, match=r"session\.recover\(\) goes on when that host is back"):
        session.run("w = w + 1")
    if not back:
        hosts.boot(2)
    said = session.recover()
    assert said.title.startswith("All 3 processes started"), said
    assert "All variables are kept." in said.text, said
    assert np.array_equal(session.pull("w"), np.arange(1.0, 13.0))
    session.run("total = float(jax.jit(lambda w: w.sum())(w))")
    assert session.pull("total") == 78.0
    session.shutdown()
    left.nothing()
