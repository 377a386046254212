"""Several kernels and threads that send to one session at the same time."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import nbdist
from tests.builders.cells import until
from tests.in_step.world import World
from tests.order import SETUP, send
from tests.waiting import wait_for

CELLS = 24
"""With the seed below, some of each kind."""


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sessions are found in a folder of each test's own."""
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))


def test_kernels_of_four_threads_each_get_right_numbers_though_one_is_killed() -> None:
    with nbdist.start(2, devices_per_process=2, platform="cpu", keep=True) as session:
        session.run(SETUP)
        found = send(session, kernels=2, cells=CELLS, interrupts=False, seed=3)
        assert found.wrong == []
        assert found.right >= CELLS - 2
        # What met the end of the kernel that was killed.
        assert found.refused.total() <= 2
        assert session.pull("total(3)") == 3.0
        assert not session.out_of_step


def test_a_plain_send_that_computes_on_one_process_alone_fails_the_next_cell_which_repairs() -> (
    None
):
    with nbdist.start(2, devices_per_process=2, platform="cpu", grace_s=1) as session:
        world = World(session, ())
        # The one waits for the other process, the other does not.
        for code in ("early = sums[6](w)", "early = jnp.sin(w)"):
            world.run(SETUP)
            session.client[0].execute(code, block=False)
            failed = world.attempt("print('it is', total(3))")
            assert failed.error is not None, failed.text
            assert failed.repaired, failed.text
            world.run(SETUP)  # what the last cell has made may be lost
            assert session.pull("total(3)") == 3.0


def test_a_cell_behind_another_kernel_is_listed_as_queued(tmp_path: Path) -> None:
    with nbdist.start(2, platform="cpu", keep=True) as first:
        first.run(until(go := tmp_path / "go"), wait=False)
        second = nbdist.attach(first.id)
        with ThreadPoolExecutor(1) as other:
            behind = other.submit(second.run, "found = 7")
            (queued,) = wait_for(lambda: [c for c in second.cells() if c.code == "found = 7"])
            go.touch()
            behind.result(60)
        assert re.match("queued behind cell 1 .* kernel", queued.state)
        assert first.pull("found", each=True) == {0: 7, 1: 7}
        assert "found = 7" not in [one.code for one in second.cells() if "queued" in one.state]
        second.detach()
