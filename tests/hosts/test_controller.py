"""ipyparallel's controller ends in a session on hosts, where all that goes through it is encrypted."""

from __future__ import annotations

import os
import signal

import pytest

import nbdist
from nbdist.contract.orders import CONTROLLER
from tests.hosts.left import Left
from tests.testbed.hosts import TestBed
from tests.waiting import wait_for

KILLED = (
    "The controller of ipyparallel has ended (killed by signal 9 (SIGKILL)); another took its place"
)


@pytest.mark.parametrize("tunnel", [False, True])
def test_another_takes_its_place_with_the_same_keys(
    hosts: TestBed, left: Left, capsys: pytest.CaptureFixture[str], tunnel: bool
) -> None:
    with nbdist.start(
        hosts="h1:1,h2:1", ssh_config=str(hosts.ssh_config), tunnel=tunnel
    ) as session:
        session.run("import jax\nkept = 40 + jax.process_index()")
        for _ in range(2):
            os.kill(session._life.engines.cluster.own_agents.home.pids[CONTROLLER], signal.SIGKILL)
            wait_for(lambda: session.out_of_step)
            session.run("print('has', kept)")
            out = capsys.readouterr().out
            assert KILLED in out
            assert "has 40" in out and "has 41" in out
    left.nothing()
