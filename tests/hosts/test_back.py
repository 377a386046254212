"""A host that was gone and is back: all processes are started anew, with the variables of those that lived on."""

from __future__ import annotations

import pytest

from nbdist import Session
from nbdist.errors import HostError, ProcessError
from tests.builders.trainings import LINEAR, MESH
from tests.hosts.left import Left
from tests.hosts.three_hosts import bits, start
from tests.testbed.hosts import TestBed
from tests.waiting import wait_for

TRAINING = f"""{MESH}{LINEAR}rng = np.random.default_rng(0)
params = {{"w": put(rng.normal(size=(12, 4)).astype("f4"), "data", "model")}}
state, done = jax.jit(tx.init)(params), 0
data = put(np.arange(144, dtype="f4").reshape(12, 12) / 144, "data")
me = jax.process_index()
def step():
    global params, state, done
    params, state, value = update(params, state, data)
    done += 1
    return float(value)
"""

TREE = ("params", "state")


@pytest.mark.parametrize("host", [2, 1])
def test_nothing_is_lost_of_what_was_copied_when_a_host_was_off_between_cells(
    hosts: TestBed, left: Left, host: int
) -> None:
    with start(hosts, copies_s=0) as session:
        session.run(TRAINING)
        session.run("for _ in range(3): step()")
        before = bits(session, *TREE, "data")
        hosts.crash(host)
        wait_for(lambda: session.out_of_step)
        with pytest.raises(HostError, match=rf"(?s)ost h{host}.* goes on when that host is back"):
            session.recover()
        assert session.out_of_step
        hosts.boot(host)
        said = session.recover()
        assert said.title.startswith("All 3 processes started"), said
        assert "All variables are kept." in said.text, said
        assert session.hosts == {0: "h1", 1: "h2", 2: "h3"}
        assert bits(session, *TREE, "data") == before
        assert session.pull("me", each=True) == {0: 0, 1: 1, 2: 2}
        session.run("step()")
    left.nothing()


def test_a_host_that_shuts_down_takes_no_process_of_another_along(
    hosts: TestBed, left: Left
) -> None:
    with start(hosts, copies_s=0) as session:
        session.run(TRAINING)
        session.run("for _ in range(3): step()")
        before = bits(session, *TREE, "data")
        pids = {one.process_id: one.pid for one in session.snapshot().processes}
        # With its agent all there ends, JAX's coordination service and its connections included.
        agent = session._life.engines.cluster.agents.others["h1"].facts[None].pid
        hosts.exec(1, "kill", "-9", str(agent))
        wait_for(lambda: session.out_of_step)
        # A report from before the end of the last cell may come after its reply; the next is a second later.
        wait_for(lambda: states(session) == {0: "lost", 1: "idle", 2: "idle"})
        for process_id in (1, 2):
            alive = hosts.exec(process_id + 1, "kill", "-0", str(pids[process_id]))
            assert alive.returncode == 0, alive.stderr
        said = session.recover()
        assert said.title.startswith("All 3 processes started"), said
        assert "All variables are kept." in said.text, said
        assert bits(session, *TREE, "data") == before
        session.run("step()")
    left.nothing()


def states(session: Session) -> dict[int, str]:
    return {one.process_id: one.state for one in session.snapshot().processes}


def test_one_that_is_off_in_the_middle_of_a_cell_takes_nothing_that_was_copied(
    hosts: TestBed, left: Left
) -> None:
    with start(hosts, copies_s=0) as session:
        session.run(TRAINING)
        session.run("step()")
        before = bits(session, *TREE, "data")
        session.run("losses = [step() for _ in range(4)]")
        undisturbed, after = session.pull("losses"), bits(session, *TREE, "data")
        session.restart()
        session.run(TRAINING)
        session.run("step()")
        assert bits(session, *TREE, "data") == before
        handle = session.run("while True: step()", wait=False)
        wait_for(lambda: all(p.state == "running" for p in session.snapshot().processes))
        hosts.crash(2)
        with pytest.raises(ProcessError, match="h2"):
            handle.wait()
        hosts.boot(2)
        said = session.recover()
        assert "s they were" in said.text, said
        assert bits(session, *TREE, "data") == before
        session.run("losses = [step() for _ in range(4)]")
        assert session.pull("losses") == undisturbed
        assert bits(session, *TREE, "data") == after
    left.nothing()
