"""Keras on the TensorFlow back end, tf_keras, and Keras on JAX where TensorFlow is installed as well."""

from __future__ import annotations

from pathlib import Path

from tests.integration.executed import NOTEBOOKS, executed, text_of
from tests.integration.notebook import Notebook

NOTEBOOK = NOTEBOOKS / "02_keras_distribution.ipynb"

TRAIN = """%%dist
import numpy as np, tensorflow as tf
x = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
data = tf.data.Dataset.from_tensor_slices((x, x.sum(1, keepdims=True))).batch(8)
with strategy.scope():
    model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
    model.compile("sgd", "mse")
losses = model.fit(data, epochs=3, verbose=0).history["loss"]
print(type(model).__module__.partition(".")[0], losses[0] > losses[-1], model.predict(data, verbose=0).shape)
"""


def test_several_processes_on_a_back_end_that_joins_none_are_refused_in_one_message(
    fresh: Notebook,
) -> None:
    refused = fresh.bad("%dist_init -n 2 --framework keras --backend tensorflow --platform cpu")
    assert "tensorflow back end" in refused.traceback
    assert "--backend jax, --framework tensorflow for tf.distribute" in refused.traceback


def test_a_distribution_that_shards_nothing_is_said_and_marked_in_the_view(fresh: Notebook) -> None:
    said = fresh.good("%dist_init -n 1 --framework keras --backend tensorflow --platform cpu").text
    assert "tensorflow back end" in said
    fresh.good(
        "%%dist\nimport keras\n"
        "keras.distribution.set_distribution(keras.distribution.DataParallel(devices=['cpu:0']))"
    )
    shown = fresh.good("%dist_status").text
    assert "tensorflow back end" in shown


def test_t3_models_of_tf_keras_train_without_any_adaptation(fresh: Notebook) -> None:
    started = fresh.good(
        "%dist_init -n 2 --framework tensorflow --platform cpu --env TF_USE_LEGACY_KERAS=1"
    ).text
    assert "nbdist adapts" not in started
    assert "processes 0, 1   tf_keras True (32, 1)" in fresh.good(TRAIN).text
    fresh.good("%dist_layout model")


def test_the_notebook_about_keras_runs_where_tensorflow_is_installed_too(tmp_path: Path) -> None:
    cells = executed(NOTEBOOK, folder=tmp_path, without=("TF_CPP_", "KERAS_"))
    assert "from one tf.data.Dataset" in text_of(cells["tf"])
