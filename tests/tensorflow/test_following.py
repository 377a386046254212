"""An evaluator follows checkpoints as they appear."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tensorflow as tf

from nbdist.engine.probe import activity
from nbdist.errors import InputError
from nbdist.tensorflow import follow_checkpoints


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")
    import keras

    return keras


def new_model(keras: Any, units: int = 4) -> Any:
    model = keras.Sequential([keras.layers.Input((units,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


def data(units: int = 4) -> Any:
    x = np.ones((8, units), np.float32)
    return tf.data.Dataset.from_tensor_slices((x, np.ones((8, 1), np.float32))).batch(4)


class Writer:
    """A model that trains, as far as an evaluator sees."""

    def __init__(self, keras: Any, folder: Path) -> None:
        self._model = new_model(keras)
        checkpoint = tf.train.Checkpoint(model=self._model)
        self._manager = tf.train.CheckpointManager(checkpoint, str(folder), max_to_keep=3)

    def save(self, weight: float) -> None:
        for variable in self._model.weights:
            variable.assign(np.full(variable.shape, weight, np.float32))
        self._manager.save()


def test_each_new_checkpoint_is_evaluated_with_its_own_weights(keras: Any, tmp_path: Path) -> None:
    writer = Writer(keras, tmp_path)
    writer.save(0.0)

    def later() -> None:
        time.sleep(0.5)
        writer.save(0.2)

    thread = threading.Thread(target=later)
    thread.start()
    found = list(follow_checkpoints(new_model(keras), data(), tmp_path, timeout_s=4))
    thread.join()
    assert [name for name, _ in found] == ["ckpt-1", "ckpt-2"]
    # All inputs and targets are 1: 4 weights and a bias of w give 5 w.
    assert [round(results["loss"], 4) for _, results in found] == [1.0, 0.0]
    assert activity.newest()[0].what == "evaluate, checkpoint ckpt-2"


def test_a_checkpoint_of_another_model_is_refused_with_its_name(keras: Any, tmp_path: Path) -> None:
    Writer(keras, tmp_path).save(1.0)
    with pytest.raises(InputError, match=r"ckpt-1 does not fit the model"):
        next(follow_checkpoints(new_model(keras, 3), data(3), tmp_path, timeout_s=1))


def test_a_checkpoint_without_a_model_is_refused(keras: Any, tmp_path: Path) -> None:
    tf.train.Checkpoint(step=tf.Variable(3)).save(str(tmp_path / "ckpt"))
    with pytest.raises(InputError, match="holds no model"):
        next(follow_checkpoints(new_model(keras), data(), tmp_path, timeout_s=1))


def test_a_model_that_is_not_built_is_refused_before_waiting(keras: Any, tmp_path: Path) -> None:
    model = keras.Sequential([keras.layers.Dense(1)])
    with pytest.raises(InputError, match="needs a built model"):
        next(follow_checkpoints(model, data(), tmp_path))
