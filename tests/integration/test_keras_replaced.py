"""Processes of Keras that end are replaced: a model trains on with the losses of an undisturbed run."""

from __future__ import annotations

import os
import signal

import pytest

import nbdist
from nbdist.errors import SessionError
from tests.variants import cases
from tests.waiting import wait_for

DATA = """
rng = np.random.default_rng(0)
X = rng.normal(size=(96, 8)).astype("f4")
Y = X.sum(1, keepdims=True)
del rng
count = jax.process_count()
def mine():
    me = jax.process_index()
    return X[me::count], Y[me::count]
x, y = mine()
"""

SETUP = f"""
import jax, keras, numpy as np
{DATA}
def data_parallel():
    return keras.distribution.DataParallel(auto_shard_dataset=False)
def model_parallel():
    names = keras.distribution.list_devices()
    layout = keras.distribution.LayoutMap(keras.distribution.DeviceMesh((count, 2), ["batch", "model"], names))
    layout[".*kernel"] = (None, "model")
    return keras.distribution.ModelParallel(layout_map=layout, auto_shard_dataset=False)
def new_model():
    keras.utils.set_random_seed(7)
    layers = [keras.layers.Dense(16, activation="relu"), keras.layers.Dropout(0.1), keras.layers.Dense(2)]
    model = keras.Sequential([keras.Input((8,)), *layers])
    model.compile(keras.optimizers.Adam(0.01), "mse")
    return model
def fit():
    global h
    h = model.fit(x, y, batch_size=8, epochs=2, verbose=0, shuffle=False)
    return h.history["loss"]
"""


@pytest.mark.parametrize(
    ("processes", "lost", "distribution"), cases((2, 0, "model_parallel"), (3, 1, "data_parallel"))
)
def test_a_model_trains_on_with_the_losses_of_an_undisturbed_run(
    processes: int, lost: int, distribution: str
) -> None:
    with nbdist.start(
        processes=processes, devices_per_process=2, platform="cpu", framework="keras"
    ) as session:
        session.run(SETUP)
        session.run(f"keras.distribution.set_distribution({distribution}())")
        session.run("model = new_model()\nfit()\nundisturbed = fit()")
        session.run("model = new_model()\nfit()")
        pid = session.snapshot().processes[lost].pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: session.out_of_step)
        with pytest.raises(SessionError, match=r"x, y were copied from process \d\.") as refused:
            session.run("found = fit()")
        session.run(DATA)
        said = str(refused.value)
        assert f"process {lost} started again\n" in said
        assert "model" not in said, "it lies on all processes"
        session.run("assert h.model is model and len(h.history['loss']) == 2")
        session.run("found = fit()")
        assert session.pull("found") == session.pull("undisturbed")
        session.run(f"assert type(keras.distribution.distribution()) is type({distribution}())")
