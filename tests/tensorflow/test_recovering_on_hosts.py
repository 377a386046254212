"""Workers of TensorFlow on hosts are replaced again and again; each time all meet at other ports."""

from __future__ import annotations

import signal

import nbdist
from nbdist.session.session import Session
from tests.testbed.fixtures import hosts
from tests.testbed.hosts import TestBed
from tests.waiting import wait_for

__all__ = ["hosts"]

TIMES = 3
REDUCED = """
import tensorflow as tf
total = float(strategy.reduce("SUM", strategy.run(lambda: tf.ones(())), axis=None))
"""


def test_they_are_replaced_however_often_beside_one_of_this_machine(hosts: TestBed) -> None:
    with nbdist.start(
        hosts="localhost:1,h1:1,h2:1",
        ssh_config=str(hosts.ssh_config),
        framework="tensorflow",
        platform="cpu",
    ) as session:
        seen = addresses(session)
        for time in range(TIMES):
            lost = 1 + time % 2
            session._life.engines.cluster.agents.signal(signal.SIGKILL, [lost])
            wait_for(lambda: session.out_of_step)
            assert f"Process {lost} was replaced" in session.recover().title
            now = addresses(session)
            assert not any(address.startswith("127.") for address in now), "the others reach it"
            assert seen.isdisjoint(now)
            seen |= now
            session.run(REDUCED)
            assert session.pull("total", each=True) == {0: 3.0, 1: 3.0, 2: 3.0}


def addresses(session: Session) -> set[str]:
    """Where the workers meet."""
    return set(session._life.engines.cluster.rendezvous.tasks.values())
