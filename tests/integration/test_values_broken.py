"""Values that raise, that are there on one process only, or that are too much to look at."""

from __future__ import annotations

import re

import numpy as np
import pytest

from nbdist import Session
from nbdist.errors import ArrayError, ProcessError

SETUP = """
import jax, jax.numpy as jnp, numpy as np, threading
class Mute(Exception):
    def __str__(self): raise KeyError('no text')
class Raises:
    def __getattr__(self, name): raise Mute
    def __array__(self, *args, **options): raise Mute
    def __repr__(self): raise ValueError('no repr')
    def __reduce_ex__(self, version): raise Mute
    @property
    def boom(self): raise Mute
x = jnp.ones(3)
broken = {'x': x, 'at': [1, Raises()]}
locked = {'x': x, 'lock': threading.Lock()}
loop = {'x': x}
loop['self'] = loop
ways = [x]
for _ in range(60): ways = [ways, ways]
rank = jax.process_index()
sometimes = jnp.ones(2) if rank == 1 else 'none yet'
if rank == 0: first_alone = np.ones(2)
none = None if rank else 1
"""


def test_a_leaf_that_raises_is_passed_over_by_looks_and_named_by_a_pull(session: Session) -> None:
    assert "['x']" in session.shards("broken").text()
    assert "1 array of broken" in session.nan("broken")
    with pytest.raises(ArrayError, match=r"\"broken\['at'\]\[1\]\".* \(Mute: \(its text cannot be"):
        session.pull("broken")
    with pytest.raises(ArrayError, match=r"raised Mute on process 0: \(its text cannot be shown"):
        session.pull("Raises().boom")
    assert not session.out_of_step


def test_a_value_that_cannot_be_shown_fails_the_cell_under_its_own_error(session: Session) -> None:
    with pytest.raises(ProcessError, match="Processes 0, 1 raised ValueError"):
        session.run("broken['at'][1]")
    assert not session.out_of_step


def test_a_lock_among_arrays_is_named_and_the_arrays_can_be_had(session: Session) -> None:
    with pytest.raises(ArrayError, match=r"\"locked\['lock'\]\" \(of type lock\) cannot be sent"):
        session.pull("locked")
    assert session.pull("locked['x']").shape == (3,)


def test_cycles_and_lists_met_on_ways_without_end_come_as_they_are(session: Session) -> None:
    loop = session.pull("loop")
    assert loop["self"] is loop and loop["x"].sum() == 3
    ways = session.pull("ways")
    assert ways[0] is ways[1]
    session.push({"again": loop, "often": ways})
    session.run("assert again['self'] is again and often[0] is often[1]")


def test_what_is_an_array_on_one_process_only_is_said_to_be(session: Session) -> None:
    with pytest.raises(ArrayError, match=r"process 0 has 'none yet', process 1 has f32\[2\]"):
        session.pull("sometimes")
    found = session.pull("sometimes", each=True)
    assert found[0] == "none yet" and np.array_equal(found[1], np.ones(2))
    with pytest.raises(ArrayError, match="raised NameError on process 1: "):
        session.pull("first_alone")
    with pytest.raises(ArrayError, match="process 0 has 1, process 1 has None"):
        session.pull("none")
    assert "1 array of sometimes" in session.nan("sometimes")
    shown = session.shards("sometimes").text().splitlines()
    assert re.match("as last reported, .* process 0", shown[0])
    assert shown[1].startswith("sometimes  f32[2]")
    session.run("sometimes")
    session.run("sometimes = x")


def test_what_is_larger_than_the_memory_is_refused_before_anything_is_sent(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    session.run(
        "from nbdist.machine import checkup\nreal = checkup.memory\n"
        "checkup.memory = lambda: {'available': 1700}\nfrom jax.sharding import PartitionSpec as P\n"
        "mesh = jax.make_mesh((2, 2), ('data', 'model'))"
    )
    sent: list[int] = []
    # Each of two processes gets 800 bytes, out of what they share or by itself; each could take that alone.
    for arguments in ({}, {"sharding": "jax.sharding.NamedSharding(mesh, P('model'))"}):
        with pytest.raises(
            ArrayError, match=r"'large' would take [12]\.\d KB on this machine.* 1\.7 KB of"
        ):
            session.push(
                {"large": np.zeros(200, np.float32)},
                progress=lambda done, total: sent.append(done),
                **arguments,  # type: ignore[arg-type]
            )
    assert not sent and not session.out_of_step
    session.push(
        {"large": np.zeros(100, np.float32)},
        sharding="jax.sharding.NamedSharding(mesh, P(('data', 'model')))",
    )
    session.run("checkup.memory = real\nassert large.shape == (100,)")
    monkeypatch.setattr("nbdist.session.values.flow.memory", lambda: {"available": 100})
    with pytest.raises(ArrayError, match="'large' is 400 B in whole, and 100 B of memory are"):
        session.pull("large", confirm=lambda question: True)


def test_a_tree_of_a_million_values_is_answered_for(session: Session) -> None:
    session.run("many = [float(n) for n in range(1_000_000)]\nplaces = [x] * 1_000_000")
    assert len(session.pull("many")) == 1_000_000
    assert "1000000 arrays of places" in session.nan("places")
    assert "980000 more arrays" in session.shards("places").text()
    with pytest.raises(ArrayError, match="holds no JAX arrays"):
        session.shards("many")
    assert "no arrays" in session.nan("many")
    session.push({"back": [float(n) for n in range(1_000_000)]})
    session.run("assert back == many\ndel many, places, back")
