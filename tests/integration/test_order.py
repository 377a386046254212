"""Several kernels and threads that send to one session at the same time."""

from __future__ import annotations

from pathlib import Path

import pytest

import nbdist
from tests.order import SETUP, send

CELLS = 24


@pytest.mark.timeout(600)
def test_kernels_of_four_threads_each_get_right_numbers_though_one_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    with nbdist.start(2, devices_per_process=2, platform="cpu", keep=True) as session:
        session.run(SETUP)
        found = send(session, kernels=2, cells=CELLS, interrupts=False)
        assert found.wrong == []
        assert found.right >= CELLS - 2
        assert found.refused.total() <= 2, "what met the end of the kernel that was killed"
        assert session.pull("total(3)") == 3.0
        assert not session.out_of_step
