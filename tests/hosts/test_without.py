"""A host that does not come back is left out: the others go on with the variables, on a smaller mesh."""

from __future__ import annotations

import numpy as np
import pytest

from nbdist.errors import ProcessError, SessionError
from tests.builders.trainings import LINEAR, MESH
from tests.hosts.left import Left
from tests.hosts.three_hosts import bits, start
from tests.testbed.hosts import TestBed
from tests.told import told
from tests.waiting import wait_for

TRAINING = f"""{MESH}{LINEAR}import time
rng = np.random.default_rng(0)
params = {{"w": put(rng.normal(size=(8, 4)).astype("f4"), None, "model")}}
state = jax.jit(tx.init)(params)
data = put(np.arange(96, dtype="f4").reshape(12, 8) / 96, "data")
def step():
    global params, state
    params, state, value = update(params, state, data)
    return float(value)
losses = [step() for _ in range(3)]
"""

TREE = ("params", "state")


def test_a_host_that_was_powered_off_is_left_out_and_training_goes_on(
    hosts: TestBed, left: Left, capsys: pytest.CaptureFixture[str]
) -> None:
    with start(hosts, copies_s=0) as session:
        session.run(TRAINING)
        before = bits(session, *TREE)
        whole = session.pull("data")
        hosts.crash(2)
        wait_for(lambda: session.out_of_step)
        with pytest.raises(
            SessionError, match=r"session\.recover\(without='HOST'\) goes on without it"
        ):
            session.run("step()")
        said = session.recover(without=["h2"])
        assert said.title.startswith("2 processes in place"), said
        assert "All variables are kept." in said.text
        assert "mesh data=3 × model=2 becomes data=2 × model=2" in capsys.readouterr().out
        assert session.hosts == {0: "h1", 1: "h3"}
        # Weights were on each; of the data h2 had a third, which another host has kept.
        assert bits(session, *TREE) == before
        assert np.array_equal(session.pull("data"), whole)
        session.run("more = [step() for _ in range(3)]")
        assert session.pull("more")[0] < session.pull("losses")[-1]
        hosts.boot(2)
    left.nothing()


def test_in_the_middle_of_a_cell_what_only_it_had_is_lost_and_named(
    hosts: TestBed, left: Left
) -> None:
    with start(hosts) as session:
        session.run(TRAINING)
        before = bits(session, *TREE)
        handle = session.run(
            "def long():\n    mine = params, state\n    while True:\n"
            "        *mine, value = update(*mine, data)\n        float(value)\n"
            "long()",
            wait=False,
        )
        wait_for(lambda: all(p.state == "running" for p in session.snapshot().processes))
        hosts.crash(3)
        with pytest.raises(ProcessError, match="h3"):
            handle.wait()
        said = session.recover(without="h3")
        assert "(f32[12, 8])" in told(said) and "Lost with process 2" in said.text, said
        assert bits(session, *TREE) == before
        with pytest.raises(ProcessError, match="was lost"):
            session.run("step()")
        session.run("data = put(np.ones((12, 8), 'f4'), 'data')\nstep()")
        hosts.boot(3)
    left.nothing()


def test_one_that_lives_is_left_out_as_well_and_nothing_is_lost(hosts: TestBed, left: Left) -> None:
    with start(hosts) as session:
        session.run(TRAINING)
        before = bits(session, *TREE, "data")
        said = session.recover(without="h1")
        assert "All variables are kept." in said.text
        assert bits(session, *TREE, "data") == before
    left.nothing()
