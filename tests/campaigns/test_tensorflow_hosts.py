"""TensorFlow on test hosts; its processes take long to start, so this is not among the quick tests."""

from __future__ import annotations

import nbdist
from tests.testbed.hosts import TestBed
from tests.waiting import wait_for

SUM = """
import tensorflow as tf

@tf.function
def total():
    def each():
        replica = tf.distribute.get_replica_context()
        return replica.all_reduce("SUM", tf.constant(2.0))
    return strategy.run(each)

sum_of_all = float(total())
"""

ENDED_SECONDS = 5.0


def test_one_strategy_spans_two_hosts_and_all_ends_with_the_session(hosts: TestBed) -> None:
    with nbdist.start(
        hosts="h2:1,h1:1", framework="tensorflow", ssh_config=str(hosts.ssh_config)
    ) as session:
        assert session.hosts == {0: "h2", 1: "h1"}
        assert "MultiWorkerMirroredStrategy with 2 cpu" in session.describe()
        session.run(SUM)
        assert [session.pull("sum_of_all", on=str(p)) for p in (0, 1)] == [4.0, 4.0]
    wait_for(lambda: [hosts.processes(i) for i in (1, 2)] == [[], []], within_s=ENDED_SECONDS)
