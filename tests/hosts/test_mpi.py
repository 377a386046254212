"""Sessions that a real mpirun starts on two hosts."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import HostError, ProcessError
from tests.hosts.left import Left
from tests.hosts.overheard import ForeignOutput, key_of_engines
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.hosts import ROOT, TestBed
from tests.told import told


@pytest.fixture(scope="module")
def session(mpi_hosts: TestBed, left: Left) -> Iterator[Session]:
    """Two processes on each of two hosts, the second first."""
    with nbdist.start(4, mpi=True, hosts="h2,h1", ssh_config=str(mpi_hosts.ssh_config)) as found:
        found.run(COLLECTIVE)
        yield found


def test_process_ids_are_ranks_and_a_collective_spans_the_hosts(session: Session) -> None:
    session.run("import os, socket\nrank = int(os.environ['OMPI_COMM_WORLD_RANK'])")
    session.run("where = socket.gethostname()\nsum_of_all = float(total(x))")
    assert session.hosts == {0: "h2", 1: "h2", 2: "h1", 3: "h1"}
    assert {p: session.pull("where", on=str(p)) for p in range(4)} == session.hosts
    assert [session.pull("rank", on=str(p)) for p in range(4)] == [0, 1, 2, 3]
    assert [session.pull("sum_of_all", on=str(p)) for p in range(4)] == [24.0] * 4


def test_the_coordinator_is_at_the_host_of_process_0_and_not_at_mpiruns(
    mpi_hosts: TestBed, session: Session
) -> None:
    session.run(
        "from jax._src import distributed\nat = distributed.global_state.coordinator_address"
    )
    for process in ("0", "3"):
        # Each reaches it through the agent of its own host.
        assert session.pull("at", on=process).rpartition(":")[0] == "127.0.0.1"
    served = session._life.engines.cluster.rendezvous.coordinator
    assert served.rpartition(":")[0] == mpi_hosts.address(2)


LAST_WORDS = """
if me != 0:
    os.write(2, b'[1,0]<stdout>:nbdist 0 1 {"event": "stopped"} by %d\\n' % me * 500)
    os._exit(3)
"""
"""As mpirun names ranks, and longer than what it sends on at once."""


def test_last_words_of_many_ranks_at_once_stay_apart_and_the_ranks_are_replaced(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ProcessError, match="ended with exit code 3") as caught:
        session.run(LAST_WORDS)
    assert "Processes 1–3 (hosts h2, h1) ended" in str(caught.value)
    (first,) = re.findall(r"process (\d) \(host h\d\)   ended", told(caught.value))
    assert set(re.findall(r"\} by (\d+)", told(caught.value))) == {first}
    assert "Processes 1–3 were replaced" in told(caught.value)
    assert [session.pull("kept", on=str(p)) for p in range(4)] == [42] * 4
    session.run("where = socket.gethostname()")
    assert session.pull("where", each=True) == session.hosts
    session.run(COLLECTIVE)


def test_when_the_session_has_ended_there_is_no_process_and_no_file(
    session: Session, left: Left
) -> None:
    assert any("on h1" in text for text in left.now())
    session.shutdown()
    left.nothing()


def test_a_host_that_mpirun_cannot_reach_is_reported_in_sshs_words(
    mpi_hosts: TestBed, gone: None
) -> None:
    with pytest.raises(HostError, match=r"ssh: Could not resolve hostname nosuchhost\.invalid"):
        nbdist.start(mpi=True, hosts="h1,nosuchhost", ssh_config=str(mpi_hosts.ssh_config))


def test_hosts_without_that_python_or_that_folder_are_reported(
    mpi_hosts: TestBed, gone: None
) -> None:
    way = {"mpi": True, "hosts": "h1,h2", "ssh_config": str(mpi_hosts.ssh_config)}
    with pytest.raises(HostError, match=r"no Python at /nowhere/python.*remote_python"):
        nbdist.start(**way, remote_python="/nowhere/python")
    with pytest.raises(HostError, match=r"Host h[12] cannot use the working folder /nowhere"):
        nbdist.start(**way, cwd="/nowhere")


KERNEL = """
import sys, nbdist
def show(stage, done, total):
    if stage == sys.argv[1]:
        print("there", flush=True)
nbdist.start(mpi=True, hosts="h1,h2", ssh_config=sys.argv[2], progress=show)
sys.stdin.read()
"""


@pytest.mark.parametrize("stage", ["launched", "ready"])
def test_nothing_outlives_a_kernel_that_is_killed(
    mpi_hosts: TestBed, stage: str, gone: None
) -> None:
    with subprocess.Popen(
        (sys.executable, "-c", KERNEL, stage, str(mpi_hosts.ssh_config)),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"there\n"
        names = {p.name() for p in psutil.Process(kernel.pid).children(recursive=True)}
        assert stage == "launched" or "mpirun" in names
        kernel.send_signal(signal.SIGKILL)


def test_the_sessions_key_does_not_go_through_what_mpirun_leaves_unencrypted(
    mpi_hosts: TestBed, gone: None
) -> None:
    with (
        ForeignOutput() as received,
        nbdist.start(mpi=True, hosts="h1,h2", ssh_config=str(mpi_hosts.ssh_config)) as session,
    ):
        session.run("x = 1")
        key = key_of_engines(mpi_hosts, 1)
    assert received.has('"server_key":')  # the orders are readable
    assert not received.has(key)
