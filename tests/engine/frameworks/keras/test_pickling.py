"""Models of Keras that are taken to another process train on there as they would have here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import keras
import numpy as np
import pytest

from nbdist.engine.frameworks.keras import objects
from nbdist.engine.frameworks.keras.objects import KerasObjects
from nbdist.engine.namespace.packing import packed, unpacked

# Keras' variables convert to NumPy in the manner of NumPy 1.
pytestmark = pytest.mark.filterwarnings("ignore:__array__ implementation")

X = np.random.default_rng(0).normal(size=(64, 4)).astype("f4")
Y = X.sum(1, keepdims=True)


def taken(value: Any) -> Any:
    """The same on another process; arrays go beside the pickle."""
    arrays: list[jax.Array] = []

    def reference(one: Any) -> int | None:
        if isinstance(one, jax.Array):
            arrays.append(one)
            return len(arrays) - 1
        return None

    data = packed(value, {}, reference, objects.reduce)
    found = unpacked(data, {}, lambda number: jax.numpy.array(arrays[number]))
    objects.finish(1, 2)
    return found


def sequential() -> keras.Model:
    layers = [
        keras.Input((4,)),
        keras.layers.Dense(8, activation="relu"),
        keras.layers.Dropout(0.1),
        keras.layers.BatchNormalization(),
        keras.layers.Dense(1),
    ]
    model = keras.Sequential(layers)
    model.compile(optimizer="adam", loss="mse", metrics=["mae"])
    return model


def functional() -> keras.Model:
    entry = keras.Input((4,))
    hidden = keras.layers.Dense(8, name="hidden")(entry)
    joined = keras.layers.Add()([hidden, keras.layers.Dense(8)(entry)])
    model = keras.Model(entry, keras.layers.Dense(1)(joined))
    rate = keras.optimizers.schedules.CosineDecay(0.1, 100)
    model.compile(keras.optimizers.SGD(rate, momentum=0.9), keras.losses.MeanSquaredError())
    return model


class Blocks(keras.Model):
    """Keeps layers in a list, in a dictionary and as itself."""

    def __init__(self) -> None:
        super().__init__()
        self.first = keras.layers.Dense(4)
        self.blocks = [keras.layers.Dense(3), keras.layers.Dense(3)]
        self.heads = {"one": keras.layers.Dense(1)}

    def call(self, x: Any) -> Any:
        x = self.first(x)
        for block in self.blocks:
            x = block(x)
        return self.heads["one"](x)


def subclassed() -> keras.Model:
    model = Blocks()
    model.compile("adam", "mse")
    return model


MODELS = [sequential, functional, subclassed]


@pytest.mark.parametrize("make", MODELS)
def test_a_model_trains_on_as_it_would_have(make: Callable[[], keras.Model]) -> None:
    keras.utils.set_random_seed(3)
    model = make()
    model.fit(X, Y, epochs=2, verbose=0)
    found = taken(model)
    assert type(found) is type(model) and found is not model
    results = [
        (
            one.fit(X, Y, epochs=2, verbose=0, shuffle=False).history,
            one.evaluate(X, Y, verbose=0),
            one.predict(X[:2], verbose=0).tolist(),
        )
        for one in (model, found)
    ]
    assert results[0] == results[1]
    first, second = (model.variables[0].numpy(), found.variables[0].numpy())
    assert np.array_equal(first, second) and model.variables[0] is not found.variables[0]


def test_a_functional_model_can_be_saved_and_changed_there(tmp_path: Any) -> None:
    model = functional()
    model.fit(X, Y, verbose=0)
    found = taken(model)
    assert found.get_config() == model.get_config()
    assert found.get_layer("hidden") is found.layers[1]
    found.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert np.array_equal(loaded.predict(X[:2], verbose=0), found.predict(X[:2], verbose=0))


def test_what_is_shared_is_shared_there() -> None:
    model = sequential()
    model.fit(X, Y, verbose=0)
    found, optimizer, kernel = taken((model, model.optimizer, model.layers[0].kernel))
    assert found.optimizer is optimizer
    assert found.layers[0].kernel is kernel


def test_layers_that_are_added_and_taken_away_there_are_tracked() -> None:
    model = Blocks()
    found = taken(model)
    for one in (model, found):
        one.blocks.append(keras.layers.Dense(3))
        one.tail = keras.layers.Dense(1)
        one.tail = one.first
    assert len(found.layers) == len(model.layers) == 6


def test_a_distribution_has_the_number_of_the_process_there() -> None:
    distribution = keras.distribution.DataParallel(devices=["cpu:0"])
    distribution._process_id, distribution._num_processes = 0, 2
    assert taken(distribution)._process_id == 1
    alone = keras.distribution.DataParallel(devices=["cpu:0"])
    assert taken(alone)._process_id == 0


def test_settings_are_those_of_the_other_process() -> None:
    keras.config.set_epsilon(1e-3)
    keras.utils.set_random_seed(5)
    keras.random.normal((2,))
    settings = taken(KerasObjects(0).settings())
    expected = keras.random.normal((2,)).tolist()
    keras.config.set_epsilon(1e-7)
    keras.utils.set_random_seed(6)
    KerasObjects(1).set(settings)
    assert keras.config.epsilon() == 1e-3
    assert keras.random.normal((2,)).tolist() == expected
    keras.config.set_epsilon(1e-7)


def test_where_keras_has_moved_its_classes_nothing_is_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects.private.PrivateName, "get", lambda name: None)
    assert objects.reduce(sequential()) is None
