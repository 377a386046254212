"""A call of Keras that is interrupted leaves its model with values."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import jax
import keras
import numpy as np
import pytest
from keras import layers
from keras.src.utils import python_utils

from nbdist.engine.cell.interrupts import AgreedStop
from nbdist.engine.cell.running import CurrentCell
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.keras import guards

X, Y = np.ones((32, 4), "float32"), np.ones((32, 1), "float32")
CALLS: dict[str, Callable[[Any], Any]] = {
    "fit": lambda model: model.fit(X, Y, epochs=2, batch_size=8, verbose=0),
    "evaluate": lambda model: model.evaluate(X, Y, batch_size=8, verbose=0),
    "predict": lambda model: model.predict(X, batch_size=8, verbose=0),
}


class Puts:
    """Stands for the handler of interrupts: one comes right before a step, counted from 0; None: none comes."""

    def __init__(self) -> None:
        self.at: int | None = None
        self.steps = 0

    def stepping(self) -> contextlib.AbstractContextManager[None]:
        return contextlib.nullcontext()

    def put_off(self, leave: Callable[[], bool]) -> Puts:
        return self

    def __enter__(self) -> None:
        self.steps += 1
        if self.steps - 1 == self.at:
            raise KeyboardInterrupt

    def __exit__(self, *_: object) -> None: ...


@pytest.fixture
def puts(monkeypatch: pytest.MonkeyPatch) -> Puts:
    for name in (
        *guards.METHODS,
        *(f"make_{step}" for step in guards.STEPS),
    ):  # as before, afterwards
        monkeypatch.setattr(keras.Model, name, getattr(keras.Model, name))
    monkeypatch.setattr(keras.Model, guards.ATTRIBUTE, None, raising=False)
    monkeypatch.setattr(python_utils, "pythonify_logs", python_utils.pythonify_logs)
    found = Puts()
    stop = AgreedStop(lambda: None, CurrentCell(), lambda: 0)
    guards.install(SimpleNamespace(interrupts=found, stop=stop))
    return found


class Interrupted(keras.Sequential):
    """One whose steps are interrupted while JAX makes their program."""

    on = False

    def _interrupted(self) -> None:
        if self.on:
            raise KeyboardInterrupt

    def train_step(self, *args: Any) -> Any:
        self._interrupted()
        return super().train_step(*args)

    def test_step(self, *args: Any) -> Any:
        self._interrupted()
        return super().test_step(*args)

    def predict_step(self, *args: Any) -> Any:
        self._interrupted()
        return super().predict_step(*args)


def new_model() -> Any:
    keras.utils.set_random_seed(0)
    model = Interrupted([keras.Input((4,)), layers.Dense(3), layers.Dense(1)])
    model.compile("adam", "mse")
    return model


def weights(model: Any) -> list[Any]:
    return [np.asarray(variable.value) for variable in model.variables]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize("at", [0, 2])
def test_an_interrupt_right_before_a_step(puts: Puts, name: str, at: int) -> None:
    puts.at = at
    model = new_model()
    first = weights(model)
    with pytest.raises(KeyboardInterrupt):
        CALLS[name](model)
    changed = any((a != b).any() for a, b in zip(first, weights(model), strict=True))
    assert changed == (name == "fit" and at > 0)
    CALLS[name](model)


@pytest.mark.parametrize("name", CALLS)
def test_an_interrupt_in_the_first_step_leaves_the_model_as_it_was(puts: Puts, name: str) -> None:
    model, undisturbed = new_model(), new_model()
    model.on = True
    first = weights(model)
    with pytest.raises(KeyboardInterrupt):
        CALLS[name](model)
    for before, after in zip(first, weights(model), strict=True):
        np.testing.assert_array_equal(before, after)
    model.on = False
    for call in CALLS.values():
        np.testing.assert_array_equal(_numbers(call(model)), _numbers(call(undisturbed)))


def test_an_interrupt_in_the_validation_of_a_fit(puts: Puts) -> None:
    model, undisturbed = new_model(), new_model()
    undisturbed.fit(X, Y, epochs=2, batch_size=8, verbose=0, shuffle=False)
    puts.steps, puts.at = 0, 5  # The second of validation, after four of training.
    with pytest.raises(KeyboardInterrupt):
        model.fit(X, Y, batch_size=8, verbose=0, shuffle=False, validation_data=(X, Y))
    model.fit(X, Y, epochs=1, batch_size=8, verbose=0, shuffle=False)
    for expected, value in zip(weights(undisturbed), weights(model), strict=True):
        np.testing.assert_array_equal(expected, value)


def test_variables_that_are_left_without_values_are_no_arrays() -> None:
    model = new_model()
    kernel, bias = model.layers[0].variables
    kernel._value = None
    found = array_paths({"model": model}, jax.Array)
    assert "model.layers[0].bias" in found
    assert "model.layers[0].kernel" not in found
    assert found["model.layers[0].bias"] is bias.value
    assert all(isinstance(array, jax.Array) for array in found.values())


def _numbers(result: Any) -> Any:
    return result.history["loss"] if hasattr(result, "history") else result
