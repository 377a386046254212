"""Faults of jobs that take longer to show: time limits, nodes and ranks that go, an allocation that ends."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import HostError, ProcessError
from tests.hosts.left import Left
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.hosts import ROOT, TestBed
from tests.testbed.slurm import Slurm
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("gone")

SEED = int(os.environ.get("NBDIST_SEED", "1"))
ROUNDS = max(1, int(os.environ.get("NBDIST_ROUNDS", "8")) // 4)
LOST_SECONDS = 45.0
END_SECONDS = 30.0
SHOWN_SECONDS = 20.0


def reported(session: Session) -> str:
    return " ".join(f"{n.title} {n.text}" for n in session.snapshot().notices)


@pytest.fixture
def cluster(slurm: Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Slurm]:
    """A kernel that knows this Slurm; after the test it has no job."""
    for name in os.environ:
        if name.startswith("SLURM_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
    yield slurm
    wait_for(lambda: slurm.jobs() == [], within_s=END_SECONDS)


def test_a_job_that_waits_for_another_starts_when_that_has_ended(cluster: Slurm) -> None:
    stages: list[str] = []

    def progress(stage: str, done: int, total: int) -> None:
        stages.append(stage)
        if "PENDING" in stage:
            first.shutdown()

    # With all processors of all nodes for one, the next has to wait, here longer than a start may take.
    everything = {"slurm": True, "nodes": 3, "slurm_options": ["--exclusive"]}
    first = nbdist.start(**everything)
    with nbdist.start(**everything, progress=progress) as second:
        second.run(COLLECTIVE)
        assert any("PENDING (Resources)" in stage for stage in stages)
        assert stages[-1] == "joined"


def test_a_node_that_dies_takes_its_processes_and_no_others(
    hosts: TestBed, cluster: Slurm, left: Left
) -> None:
    with nbdist.start(slurm=True, nodes=3) as session:
        session.run("kept = 42")
        host = session.hosts[2]
        i = int(host.removeprefix("h"))
        hosts.cut(i)
        try:
            wait_for(
                lambda: f"Host {host} does not answer" in reported(session), within_s=SHOWN_SECONDS
            )
            wait_for(lambda: "Process 2 is lost" in reported(session), within_s=LOST_SECONDS)
            assert [session.pull("kept", on=str(p)) for p in (0, 1)] == [42, 42]
        finally:
            hosts.heal(i)


def test_a_cut_that_is_healed_costs_nothing(hosts: TestBed, cluster: Slurm) -> None:
    with nbdist.start(slurm=True, nodes=3) as session:
        session.run(COLLECTIVE)
        host = session.hosts[1]
        hosts.cut(int(host.removeprefix("h")))
        wait_for(
            lambda: f"Host {host} does not answer" in reported(session), within_s=SHOWN_SECONDS
        )
        hosts.heal(int(host.removeprefix("h")))
        wait_for(lambda: "does not answer" not in reported(session), within_s=END_SECONDS)
        session.run("assert float(total(x)) == 24")


def test_the_end_of_the_allocation_is_reported(cluster: Slurm) -> None:
    with nbdist.start(2, slurm=True, time="0:05") as session:  # rounded up to a minute by Slurm
        wait_for(lambda: "are lost" in reported(session), within_s=150)
        assert "DUE TO TIME LIMIT" in reported(session)


KERNEL = """
import sys, nbdist
print("there", flush=True)
nbdist.start(2, slurm=True)
sys.stdin.read()
"""
MPI_KERNEL = """
import sys, nbdist
print("there", flush=True)
nbdist.start(mpi=True, hosts="h1,h2", ssh_config=sys.argv[1])
sys.stdin.read()
"""


def kill_at_random(*command: str) -> None:
    with subprocess.Popen(
        (sys.executable, "-c", *command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"there\n"
        time.sleep(random.uniform(0, 6))
        kernel.send_signal(signal.SIGKILL)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_kernel_of_slurm_that_is_killed_at_any_moment_leaves_nothing(
    number: int, cluster: Slurm
) -> None:
    random.seed(SEED * 1000 + number)
    kill_at_random(KERNEL)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_kernel_of_mpi_that_is_killed_at_any_moment_leaves_nothing(
    number: int, mpi_hosts: TestBed
) -> None:
    random.seed(SEED * 1000 + number)
    kill_at_random(MPI_KERNEL, str(mpi_hosts.ssh_config))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_an_interrupt_at_any_stage_leaves_nothing(
    number: int, cluster: Slurm, mpi_hosts: TestBed
) -> None:
    random.seed(SEED * 1000 + number)
    stop = random.choice(("launched", "starting", "connected", "ready", "joined"))

    def progress(stage: str, done: int, total: int) -> None:
        if stage == stop:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nbdist.start(2, slurm=True, progress=progress)
    with pytest.raises(KeyboardInterrupt):
        nbdist.start(
            mpi=True, hosts="h1,h2", ssh_config=str(mpi_hosts.ssh_config), progress=progress
        )


def test_a_killed_rank_is_reported_and_the_others_live(mpi_hosts: TestBed) -> None:
    way = {"mpi": True, "hosts": "h1,h2", "ssh_config": str(mpi_hosts.ssh_config)}
    with nbdist.start(**way) as session:
        session.run("import os\nrank, kept = os.getppid(), 42")
        mpi_hosts.exec(2, "kill", "-9", str(session.pull("rank", on="1")))
        wait_for(lambda: "Process 1 is lost" in reported(session), within_s=LOST_SECONDS)
        assert session.pull("kept", on="0") == 42


def test_a_host_that_mpirun_loses_ends_the_cell_with_its_words(mpi_hosts: TestBed) -> None:
    way = {"mpi": True, "hosts": "h1,h2", "ssh_config": str(mpi_hosts.ssh_config)}
    with nbdist.start(**way) as session:
        session.run(COLLECTIVE)
        mpi_hosts.crash(2)
        try:
            with pytest.raises(ProcessError, match=r"does not answer|out of reach"):
                session.run("time.sleep(100)")
        finally:
            mpi_hosts.boot(2)


def test_a_host_that_hangs_while_mpirun_connects_is_given_up(mpi_hosts: TestBed) -> None:
    with pytest.raises(HostError, match=r"ssh: connect to host .* timed out"):
        nbdist.start(mpi=True, hosts="h1,dead", ssh_config=str(mpi_hosts.ssh_config))
