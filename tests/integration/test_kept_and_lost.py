"""A process of a kept session that ends while no kernel is there: the next kernel sees it, and replaces it."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psutil
import pytest

from tests.builders.cells import SPREAD
from tests.integration.kernels import Kernels
from tests.integration.notebook import Notebook, gone
from tests.variants import cases

START = (
    "%dist_init -n 2 --platform cpu --keep --env MY_TOKEN=s3cret "
    "--env XLA_FLAGS=--xla_force_host_platform_device_count=2"
)
SETUP = f"%%dist\n{SPREAD}v = spread(np.arange(8.0))\ndel w\nos.getpid()"
SLEEP = "%%dist\nprint('asleep')\ntime.sleep(600)"
AGAIN = "%%dist\nprint(float(v.sum()), os.environ['MY_TOKEN'], len(jax.local_devices()))"
RIGHT = "28.0 s3cret 2"
MEETING = """%%dist
total = jax.jit(lambda w: w.sum())
print(float(total(spread(np.arange(8.0), "x"))))"""

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


@pytest.fixture
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernels]:
    found = Kernels(tmp_path_factory.mktemp("kernels"))
    yield found
    found.close()


@pytest.fixture
def first(kernels: Kernels) -> Notebook:
    """The first kernel, with a kept session."""
    found = kernels.start()
    found.good(START)
    return found


def pids_of(notebook: Notebook) -> list[int]:
    return [int(line.split()[-1]) for line in notebook.good(SETUP).text.splitlines()]


def left_with(kernels: Kernels, notebook: Notebook, lost: int, pids: list[int]) -> Notebook:
    """The next kernel, after the end of the first and of one process."""
    kernels.kill(notebook)
    process = psutil.Process(pids[lost])
    process.kill()
    assert not gone([process])
    return kernels.start()


def ends(kernels: Kernels, last: Notebook) -> None:
    """Nothing is left of the session."""
    last.good("%dist_shutdown")
    assert kernels.folders == []


@pytest.mark.parametrize("lost", cases(0, 1))
def test_one_that_ends_between_cells_is_replaced_with_the_variables_that_are_not_written_down(
    kernels: Kernels, first: Notebook, lost: int
) -> None:
    second = left_with(kernels, first, lost, pids_of(first))
    killed = f"process {lost} (before: killed by signal 9 (SIGKILL)) has the "
    second.shows(
        "%dist_init --attach last", f"process {lost} started again; all variables kept", killed
    )
    second.shows(AGAIN, RIGHT)
    ends(kernels, second)


@pytest.mark.parametrize("lost", cases(0, 1))
def test_one_that_ends_in_a_cell_is_named_at_its_end_and_replaced_before_the_next(
    kernels: Kernels, first: Notebook, lost: int
) -> None:
    pids = pids_of(first)
    first.follow(SLEEP, "asleep")
    second = left_with(kernels, first, lost, pids)
    said = second.shows("%dist_init --attach last", f"process {1 - lost} still runs cell 4")
    assert (
        f"process {lost}   ended while no kernel was there; what was printed there is lost" in said
    )
    second.fails("%sync", f"process {lost} killed by signal 9", f"process {1 - lost}   interrupted")
    assert re.search(rf"^{lost} .* lost ", second.good("%dist_status").text, re.M)
    second.shows(AGAIN, f"process {lost} started again; all variables kept", RIGHT)
    ends(kernels, second)


def test_a_cell_that_one_process_got_before_the_kernel_was_killed_is_found_and_ended(
    kernels: Kernels, first: Notebook
) -> None:
    pids_of(first)
    # The other has sent as many programs of the same name, but in an earlier cell.
    first.good(MEETING)
    first.good(KILLED_IN_BETWEEN)
    first.send(MEETING)
    first.process.wait(30)
    second = kernels.start()
    second.shows("%dist_init --attach last", "process 0 still runs cell")
    second.fails("%sync", "process 1\nNotStarted: ", "process 0   interrupted while waiting")
    second.shows(AGAIN, RIGHT)
    ends(kernels, second)
