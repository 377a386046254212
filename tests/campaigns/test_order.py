"""Three kernels of four threads each, with interrupts and a kill among their cells: `NBDIST_CELLS` of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import nbdist
from tests.order import SETUP, send
from tests.testbed.hosts import TestBed

CELLS = int(os.environ.get("NBDIST_CELLS", "1000"))
SEED = int(os.environ.get("NBDIST_SEED", "0"))


@pytest.mark.timeout(1200 + 4 * CELLS)
@pytest.mark.parametrize("on_hosts", [False, True])
def test_every_number_is_right_or_its_cell_refused_and_the_session_lives(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, on_hosts: bool
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    if on_hosts:
        hosts: TestBed = request.getfixturevalue("hosts")
        session = nbdist.start(
            hosts="h1:2,h2:2", ssh_config=str(hosts.ssh_config), platform="cpu", keep=True
        )
    else:
        session = nbdist.start(4, devices_per_process=2, platform="cpu", keep=True)
    with session:
        session.run(SETUP)
        found = send(session, kernels=3, cells=CELLS, interrupts=True, seed=SEED)
        print(found)
        assert found.wrong == []
        assert found.right >= CELLS // 2
        if session.out_of_step:
            session.recover()
        assert session.pull("total(3)") == 3.0
