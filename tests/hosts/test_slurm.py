"""Sessions of a real Slurm: a job of their own or a step of an allocation, its queue, its failures, its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import HostError, OptionError, ProcessError
from tests.hosts.left import Left
from tests.hosts.overheard import ForeignOutput, key_of_engines
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.hosts import ROOT, TestBed
from tests.testbed.slurm import Slurm
from tests.waiting import wait_for


@pytest.fixture(scope="module", autouse=True)
def cluster(slurm: Slurm) -> Iterator[Slurm]:
    """A kernel that knows this Slurm and is in no allocation."""
    with pytest.MonkeyPatch.context() as patch:
        for name in os.environ:
            if name.startswith("SLURM_"):
                patch.delenv(name)
        patch.setenv("SLURM_CONF", slurm.environment["SLURM_CONF"])
        yield slurm


@pytest.fixture
def gone(slurm: Slurm, gone: None) -> Iterator[None]:
    """After the test there is no job either."""
    yield
    wait_for(lambda: slurm.jobs() == [])


@pytest.fixture(scope="module")
def session(hosts: TestBed, left: Left) -> Iterator[Session]:
    """Two processes on each of two hosts, started from a folder that all hosts see."""
    folder = hosts.folder / "project"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        # Of another job: no process of this one may believe them.
        patch.setenv("TF_CONFIG", "{}")
        patch.setenv("SLURM_CPU_BIND", "quiet,mask_cpu:0x80000000")
        with nbdist.start(slurm=True, nodes=2, ntasks_per_node=2) as found:
            found.run(COLLECTIVE)
            found.run("import os")
            yield found


def test_process_ids_are_the_numbers_of_tasks_and_a_collective_spans_the_hosts(
    session: Session,
) -> None:
    session.run("import os, socket\ntask = int(os.environ['SLURM_PROCID'])")
    session.run("where = socket.gethostname()\nsum_of_all = float(total(x))")
    assert [session.pull("task", on=str(p)) for p in range(4)] == [0, 1, 2, 3]
    assert [session.pull("sum_of_all", on=str(p)) for p in range(4)] == [24.0] * 4
    assert session.hosts == {p: session.pull("where", on=str(p)) for p in range(4)}
    assert sorted(session.hosts.values()) == ["h1", "h1", "h2", "h2"]
    assert "2 hosts, 4 cpu devices" in session.describe()


def test_tasks_are_in_the_kernels_folder_with_its_environment_and_without_what_misleads(
    hosts: TestBed, session: Session
) -> None:
    session.run("folder, config = os.getcwd(), os.environ.get('TF_CONFIG')")
    folder = hosts.folder / "project"
    assert session.pull("folder", on="3") == str(folder)
    assert session.pull("config", on="3") is None
    assert list(folder.iterdir()) == []


def test_a_killed_process_ends_neither_the_job_nor_the_others(
    slurm: Slurm, session: Session
) -> None:
    with pytest.raises(ProcessError, match=r"Process 3 \(host h2\) was killed by signal 9"):
        session.run("import signal\nif me == 3:\n    os.kill(os.getpid(), signal.SIGKILL)")
    assert [session.pull("kept", on=str(p)) for p in range(3)] == [42] * 3
    assert len(slurm.jobs()) == 1


def test_a_task_that_is_killed_is_reported(hosts: TestBed, session: Session) -> None:
    hosts.exec(2, "kill", "-9", str(session.pull("os.getppid()", on="2")))
    reported = "Process 2 on h2: out of reach: Killed (host h2)"
    wait_for(lambda: reported in str(session.snapshot().notices))


def test_a_session_whose_job_is_cancelled_says_so(slurm: Slurm, session: Session) -> None:
    (job,) = slurm.jobs()
    slurm.run("scancel", job.split()[0])
    reported = f"Process 0 on h1: out of reach: Slurm's job {job.split()[0]} (CANCELLED)"
    wait_for(lambda: reported in str(session.snapshot().notices))


def test_when_the_session_has_ended_there_is_no_job_no_process_and_no_file(
    slurm: Slurm, session: Session, left: Left
) -> None:
    session.restart()
    assert len(slurm.jobs()) == 1
    session.shutdown()
    wait_for(lambda: slurm.jobs() == [])
    left.nothing()


def test_a_job_that_waits_is_shown_with_its_reason_and_an_interrupt_cancels_it(
    slurm: Slurm, gone: None
) -> None:
    stages: list[str] = []

    def progress(stage: str, done: int, total: int) -> None:
        stages.append(stage)
        if "PENDING (" in stage:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        nbdist.start(2, slurm=True, partition="closed", progress=progress)
    assert stages[-1].startswith("job ") and stages[-1].endswith(" PENDING (PartitionDown)")


def test_a_job_that_is_cancelled_while_it_waits_is_reported_with_its_state(
    slurm: Slurm, gone: None
) -> None:
    def progress(stage: str, done: int, total: int) -> None:
        if "PENDING" in stage:
            slurm.run("scancel", stage.split()[1])

    with pytest.raises(HostError, match=r"Slurm's job \d+ \(CANCELLED, PartitionDown\) ended"):
        nbdist.start(2, slurm=True, partition="closed", progress=progress)


def test_what_slurm_refuses_is_reported_in_its_words(gone: None) -> None:
    with pytest.raises(HostError, match=r"srun: error: .*Invalid partition name specified"):
        nbdist.start(2, slurm=True, partition="fastest")
    with pytest.raises(HostError, match=r"Slurm's job \d+ \(FAILED, BadConstraints\) ended"):
        nbdist.start(2, slurm=True, slurm_options=["--mem=999G"])


def test_more_nodes_than_there_are_are_not_waited_for(gone: None) -> None:
    with pytest.raises(OptionError, match="nodes=9: this cluster has 3 nodes"):
        nbdist.start(slurm=True, nodes=9)


def test_hosts_without_that_python_or_that_folder_are_reported(gone: None) -> None:
    with pytest.raises(HostError, match=r"no Python at /nowhere/python.*remote_python"):
        nbdist.start(2, slurm=True, remote_python="/nowhere/python")
    with pytest.raises(HostError, match="Host h1 cannot use the working folder /nowhere"):
        nbdist.start(2, slurm=True, cwd="/nowhere")


def test_a_stale_allocation_is_reported(monkeypatch: pytest.MonkeyPatch, gone: None) -> None:
    for name, value in (("ID", "999999"), ("NUM_NODES", "1"), ("NODELIST", "h1")):
        monkeypatch.setenv(f"SLURM_JOB_{name}", value)
    with pytest.raises(HostError, match="of an allocation that has ended"):
        nbdist.start(slurm=True)


INSIDE = """
import os, sys, nbdist
try:
    nbdist.start(slurm=True, nodes=3)
except nbdist.errors.OptionError as error:
    print(error)
with nbdist.start(slurm=True, cluster_detection_method="slurm") as session:
    session.run("import jax, os\\nseen = jax.device_count(), os.environ['SLURM_JOB_ID']")
    print(len(session.hosts), *sorted(set(session.hosts.values())), *session.pull("seen", on="1"))
os.system("squeue --noheader --format='%i %T %N'")
"""


def test_in_an_allocation_a_session_is_a_step_of_it_and_leaves_it(slurm: Slurm, gone: None) -> None:
    said = subprocess.run(
        ("salloc", "--nodes=2", "--ntasks-per-node=1", sys.executable, "-u", "-c", INSIDE),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=60,
        check=False,
    )
    refused, seen, *jobs = said.stdout.splitlines()
    job = seen.split()[-1]
    assert refused.startswith(
        f"nodes=3: this kernel runs in Slurm's allocation {job}, which has 2 (h[1-2])."
    )
    assert seen == f"2 h1 h2 2 {job}"
    assert jobs == [f"{job} RUNNING h[1-2]"]


RESIZED = """
import nbdist
with nbdist.start(2, slurm=True, nodes=2) as session:
    session.run("import jax, numpy as np; from jax.sharding import NamedSharding, PartitionSpec as P")
    session.run("mesh = jax.make_mesh((jax.device_count(),), ('data',))")
    session.run("x = jax.device_put(np.arange(12.0), NamedSharding(mesh, P('data')))")
    for processes in (3, 1):
        print(session.resize(processes).title.partition(" after")[0])
        session.run("total = float(x.sum())")
        hosts, total, shape = {*session.hosts.values()}, session.pull("total"), session.pull("dict(mesh.shape)")
        print(len(session.hosts), *sorted(hosts), total, shape)
    try:
        session.recover(without=["h2"])
    except nbdist.errors.OptionError as error:
        print(error)
"""


def test_in_an_allocation_it_goes_on_with_another_number_of_processes(
    slurm: Slurm, gone: None
) -> None:
    said = subprocess.run(
        ("salloc", "--nodes=2", "--ntasks-per-node=2", sys.executable, "-u", "-c", RESIZED),
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        timeout=180,
        check=False,
    )
    lines = [line for line in said.stdout.splitlines() if not line.startswith("mesh ")]
    assert lines[:4] == [
        "3 processes in place of 2",
        "3 h1 h2 66.0 {'data': 3}",
        "1 process in place of 3",
        "1 h1 66.0 {'data': 1}",
    ], said
    assert "tasks of a job" in lines[4]


KERNEL = """
import sys, nbdist
def show(stage, done, total):
    if stage.startswith(sys.argv[1]):
        print("there", flush=True)
nbdist.start(2, slurm=True, partition=sys.argv[2], progress=show)
sys.stdin.read()
"""


@pytest.mark.parametrize(("stage", "partition"), [("job", "closed"), ("joined", "debug")])
def test_nothing_outlives_a_kernel_that_is_killed(
    slurm: Slurm, stage: str, partition: str, gone: None
) -> None:
    with subprocess.Popen(
        (sys.executable, "-c", KERNEL, stage, partition),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    ) as kernel:
        assert kernel.stdout is not None
        assert kernel.stdout.readline() == b"there\n"
        assert len(slurm.jobs()) == 1
        kernel.send_signal(signal.SIGKILL)


def test_the_sessions_key_does_not_go_through_what_slurm_leaves_unencrypted(
    hosts: TestBed, gone: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    with ForeignOutput() as received, nbdist.start(slurm=True, nodes=2) as session:
        session.run("x = 1")
        key = key_of_engines(hosts, 1)
    assert received.has('"server_key":')  # the orders are readable
    assert not received.has(key)
