"""A process of a kept session that ends while no kernel is there: the next kernel sees it, and replaces it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psutil
import pytest

from tests.integration.kernels import Kernels
from tests.integration.notebook import Notebook, gone
from tests.variants import cases

START = (
    "%dist_init -n 2 --platform cpu --keep --env MY_TOKEN=s3cret "
    "--env XLA_FLAGS=--xla_force_host_platform_device_count=2"
)

SETUP = """%%dist
import os, jax, jax.numpy as jnp, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("x",))
w = jax.device_put(np.arange(8.0), NamedSharding(mesh, P()))
os.getpid()"""

SLEEP = """%%dist
import time
print("asleep")
time.sleep(600)"""

AGAIN = """%%dist
print(float(jnp.sum(w)), os.environ["MY_TOKEN"], len(jax.local_devices()))"""


KILLED_IN_BETWEEN = """
import os, signal, time
import nbdist
client = nbdist.current().client
send = client.send_execute_request
def once(*args, **options):
    sent = send(*args, **options)
    time.sleep(1)  # it leaves on a thread of its own
    os.kill(os.getpid(), signal.SIGKILL)
client.send_execute_request = once"""

MEETING = """%%dist
v = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda i: np.arange(8.0)[i])
total = jax.jit(lambda v: v.sum())
print(float(total(v)))"""


@pytest.fixture
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    found = Kernels(tmp_path_factory.mktemp("kernels"))
    yield found
    found.close()


def left_with(kernels: Kernels, notebook: Notebook, lost: int, pids: list[int]) -> Notebook:
    """The next kernel, after the end of the first and of one process."""
    kernels.kill(notebook)
    process = psutil.Process(pids[lost])
    process.kill()
    assert not gone([process])
    return kernels.start()


def pids_of(notebook: Notebook) -> list[int]:
    return [int(line.split()[-1]) for line in notebook.good(SETUP).text.splitlines()]


@pytest.mark.parametrize("lost", cases(0, 1))
def test_one_that_ends_between_cells_is_replaced_with_the_variables_that_are_not_written_down(
    kernels: Kernels, lost: int
) -> None:
    first = kernels.start()
    first.good(START)
    second = left_with(kernels, first, lost, pids_of(first))
    said = second.good("%dist_init --attach last").text
    assert f"Process {lost} was replaced" in said and "All variables are kept." in said
    before = f"process {lost} (before: killed by signal 9 (SIGKILL)) has the 8 names"
    second.shows("%dist_why", before)
    assert "28.0 s3cret 2" in second.good(AGAIN).text
    second.good("%dist_shutdown")
    assert kernels.folders == []


@pytest.mark.parametrize("lost", cases(0, 1))
def test_one_that_ends_in_a_cell_is_named_at_its_end_and_replaced_before_the_next(
    kernels: Kernels, lost: int
) -> None:
    first = kernels.start()
    first.good(START)
    pids = pids_of(first)
    first.collect(first.send(SLEEP), until="asleep")
    second = left_with(kernels, first, lost, pids)
    said = second.good("%dist_init --attach last").text
    assert (
        f"process {lost}   ended while no kernel was there; what was printed there is lost" in said
    )
    assert f"process {1 - lost} still runs cell 4" in said
    failed = second.bad("%sync").told
    assert f"Process {lost} was killed by signal 9 (SIGKILL)" in failed
    assert f"process {1 - lost}   interrupted at line 4" in failed
    assert re.search(rf"^{lost} .* lost ", second.good("%dist_status").text, re.M)
    shown = second.good(AGAIN).text
    assert f"Process {lost} was replaced" in shown and "All variables are kept." in shown
    assert "28.0 s3cret 2" in shown
    second.good("%dist_shutdown")
    assert kernels.folders == []


def test_a_cell_that_one_process_got_before_the_kernel_was_killed_is_found_and_ended(
    kernels: Kernels,
) -> None:
    first = kernels.start()
    first.good(START)
    pids_of(first)
    # The other has sent as many programs of the same name, but in an earlier cell.
    first.good(MEETING)
    first.good(KILLED_IN_BETWEEN)
    first.send(MEETING)
    first.process.wait(30)
    second = kernels.start()
    assert "still runs cell" in second.good("%dist_init --attach last").text
    failed = second.bad("%sync").told
    assert "process 1\nNotStarted: " in failed and "no record of it" in failed
    assert "process 0   interrupted while waiting" in failed
    assert "28.0 s3cret 2" in second.good(AGAIN).text
    second.good("%dist_shutdown")
    assert kernels.folders == []
