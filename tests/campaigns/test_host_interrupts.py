"""Interrupts and kills of a kernel whose processes are on other hosts: whenever they come, nothing stays.

The moments are the same each time; `NBDIST_SEED=N make test-faults` chooses others, and prints which.
"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.campaigns.test_host_faults import GRACE_SECONDS, HOSTS, LOOP, ROUNDS, SEED
from tests.hosts.left import Left
from tests.integration.notebook import Notebook
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.hosts import TestBed


class Kernel(Notebook):
    """A kernel with nbdist loaded, and what its sessions leave."""

    def __init__(self, bed: TestBed, folder: Path) -> None:
        temporary = Path(tempfile.mkdtemp(prefix="temporary-", dir=folder))
        super().__init__(folder=folder, environment={"TMPDIR": str(temporary)})
        self.left = Left(bed, temporary, starter=self.process.pid)
        # The folder of this kernel is not there on the hosts.
        self.start = f"%dist_init --hosts {HOSTS} --cwd / --ssh-config {bed.ssh_config}"
        self.good("%load_ext nbdist")


@pytest.fixture(scope="module")
def kernel(hosts: TestBed, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    with Kernel(hosts, tmp_path_factory.mktemp("kernel")) as found:
        yield found


STAGES = {
    "reaching": "0 of 2 hosts reached",
    "starting": "starting 4 processes",
    "connecting": r"\d of 4 processes connected",
    "joining": r"\d of 4 processes joined",
}


@pytest.mark.parametrize("stage", STAGES)
def test_an_interrupt_at_each_stage_of_a_start_leaves_nothing(kernel: Kernel, stage: str) -> None:
    request = kernel.send(kernel.start)
    kernel.collect(request, until=STAGES[stage])
    interrupt_and_end(kernel, request)


@pytest.mark.parametrize("turn", range(max(1, ROUNDS // 2)))
def test_an_interrupt_at_any_moment_of_a_start_leaves_nothing(kernel: Kernel, turn: int) -> None:
    random.seed(SEED + turn)
    moment = random.uniform(0, 4)
    print(f"seed {SEED + turn}: interrupt {moment:.2f} s into the start")
    request = kernel.send(kernel.start)
    time.sleep(moment)
    interrupt_and_end(kernel, request)


@pytest.mark.parametrize("turn", range(max(1, ROUNDS // 4)))
def test_a_second_interrupt_while_the_first_still_cleans_up_leaves_nothing(
    kernel: Kernel, turn: int
) -> None:
    random.seed(SEED + turn)
    stage, pause = random.choice(list(STAGES)), random.uniform(0, 0.4)
    print(f"seed {SEED + turn}: two interrupts while {stage}, {pause:.2f} s apart")
    request = kernel.send(kernel.start)
    kernel.collect(request, until=STAGES[stage])
    kernel.interrupt()
    time.sleep(pause)
    interrupt_and_end(kernel, request)


def interrupt_and_end(kernel: Kernel, request: str) -> None:
    kernel.interrupt()
    try:
        output = kernel.collect(request, timeout_s=GRACE_SECONDS)
        if output.error is not None and output.error[0] == "KeyboardInterrupt":
            kernel.left.nothing()
    finally:
        # It may have been faster. The next test starts a session of its own.
        kernel.run("%dist_shutdown")
    kernel.left.nothing()


def test_an_interrupt_while_a_host_does_not_answer_ends_ssh_as_well(
    hosts: TestBed, kernel: Kernel
) -> None:
    request = kernel.send(kernel.start.replace(HOSTS, "h1:1,dead:1"))
    time.sleep(2)
    kernel.interrupt()
    output = kernel.collect(request, timeout_s=GRACE_SECONDS)
    assert output.error is not None and output.error[0] == "KeyboardInterrupt"
    kernel.left.nothing()


def test_an_interrupt_in_a_cell_ends_it_on_all_hosts(kernel: Kernel) -> None:
    kernel.good(kernel.start)
    try:
        kernel.good(f"%%dist\n{COLLECTIVE}")
        request = kernel.send(f"%%dist\n{LOOP}")
        time.sleep(2)
        kernel.interrupt()
        output = kernel.collect(request, timeout_s=30)
        assert "KeyboardInterrupt" in output.traceback
        assert "4" in kernel.good("%%dist --on host=h2\nlen(jax.devices())").text
    finally:
        kernel.run("%dist_shutdown")
    kernel.left.nothing()


@pytest.mark.parametrize("turn", range(max(1, ROUNDS // 4)))
def test_nothing_outlives_a_kernel_that_is_killed_at_any_moment_of_a_start(
    hosts: TestBed, tmp_path: Path, turn: int
) -> None:
    random.seed(SEED + turn)
    moment = random.uniform(0, 4)
    print(f"seed {SEED + turn}: SIGKILL {moment:.2f} s into the start")
    with Kernel(hosts, tmp_path) as kernel:
        kernel.send(kernel.start)
        time.sleep(moment)
        kernel.process.kill()
        # In the middle of an import a parent notices when that is done.
        kernel.left.nothing()


def test_two_sessions_at_once_from_one_folder_do_not_meet(hosts: TestBed, tmp_path: Path) -> None:
    with Kernel(hosts, tmp_path) as one, Kernel(hosts, tmp_path) as other:
        before = sorted(tmp_path.iterdir())
        requests = [kernel.send(kernel.start) for kernel in (one, other)]
        for kernel, request in zip((one, other), requests, strict=True):
            output = kernel.collect(request)
            assert output.error is None, output.traceback
            kernel.good(f"%%dist\n{COLLECTIVE}")
        one.good("%%dist\nkept = 'of one'")
        other.good("%%dist\nkept = 'of the other'")
        assert "of one 24.0" in one.good("%%dist\nprint(kept, float(total(x)))").text
        one.good("%dist_shutdown")
        assert "of the other 24.0" in other.good("%%dist\nprint(kept, float(total(x)))").text
        other.good("%dist_shutdown")
        assert sorted(tmp_path.iterdir()) == before
        for kernel in (one, other):
            kernel.left.nothing()
