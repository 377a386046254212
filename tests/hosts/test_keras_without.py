"""A model of Keras on three hosts, of which one is powered off: the others go on with all its values."""

from __future__ import annotations

import numpy as np

import nbdist
from tests.hosts.left import Left
from tests.hosts.three_hosts import start
from tests.testbed.hosts import TestBed
from tests.waiting import wait_for

# Each kernel is divided over all hosts, so that each alone has a part of it, which another keeps a copy of.
SETUP = """
import jax, keras, numpy as np
rng = np.random.default_rng(0)
X = rng.normal(size=(48, 12)).astype("f4")
Y = X.sum(1, keepdims=True)
mesh = keras.distribution.DeviceMesh((6,), ["model"], keras.distribution.list_devices())
layout = keras.distribution.LayoutMap(mesh)
layout[".*kernel"] = ("model", None)
keras.distribution.set_distribution(
    keras.distribution.ModelParallel(layout_map=layout, batch_dim_name="model", auto_shard_dataset=False)
)
keras.utils.set_random_seed(7)
model = keras.Sequential([keras.Input((12,)), keras.layers.Dense(24, activation="relu"), keras.layers.Dense(2)])
model.compile(keras.optimizers.Adam(0.01), "mse")
def fit():
    me, count = jax.process_index(), jax.process_count()
    return model.fit(X[me::count], Y[me::count], batch_size=4, epochs=1, verbose=0, shuffle=False).history["loss"]
losses = fit()
"""


def values(session: nbdist.Session) -> list[bytes]:
    names = "[v.value for v in (*model.variables, *model.optimizer.variables)]"
    return [np.asarray(value).tobytes() for value in session.pull(names)]


def test_the_parts_of_the_host_that_is_left_out_come_from_their_copies(
    hosts: TestBed, left: Left
) -> None:
    with start(hosts, framework="keras", copies_s=0) as session:
        session.run(SETUP)
        before = values(session)
        hosts.crash(2)
        wait_for(lambda: session.out_of_step)
        said = session.recover(without=["h2"])
        assert said.title.startswith("2 processes in place"), said
        assert "All variables are kept." in said.text, said
        assert values(session) == before
        session.run("more = fit()\nassert more[0] < losses[0]")
    left.nothing()
