"""What `%dist_recover` leaves of use, and what it refuses."""

from __future__ import annotations

import re

import psutil

from tests.integration.notebook import Notebook

TRAIN = """%%dist
import keras, numpy as np, tensorflow as tf
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(8)
with strategy.scope():
    model = keras.Sequential([keras.layers.Input((4,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
model.fit(data, epochs=2, shuffle=False, verbose=0)
print("trained")
"""


def test_an_evaluator_is_replaced_beside_workers_whose_models_stay_of_use(fresh: Notebook) -> None:
    fresh.good("%dist_init -n 2 --evaluators 1 --framework tensorflow --platform cpu")
    fresh.good(TRAIN)
    pids = fresh.good(
        "import nbdist\nprint([p.pid for p in nbdist.current().snapshot().processes])"
    )
    psutil.Process(int(re.findall(r"\d+", pids.text)[2])).kill()
    while "lost" not in fresh.good("%dist_status").text:
        pass
    said = fresh.good("%dist_recover").text
    assert "Process 2 was replaced" in said
    assert "strategy is new" not in said
    fresh.good("%%dist\nprint(model.evaluate(data, verbose=0))")
    assert "MirroredStrategy" in fresh.good("%%dist --on evaluator\nprint(type(strategy))").text


def test_a_model_from_before_is_refused_with_what_to_do(fresh: Notebook) -> None:
    fresh.good("%dist_init -n 2 --framework tensorflow --platform cpu")
    fresh.good(TRAIN)
    assert "Create your models again" in fresh.good("%dist_recover").text
    refused = fresh.bad("%%dist\nmodel.fit(data, epochs=1, verbose=0)")
    assert "from before %dist_recover" in refused.traceback
    assert "restore its newest checkpoint" in refused.traceback
    assert "processes 0, 1   trained" in fresh.good(TRAIN).text
