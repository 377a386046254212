"""Models are saved by their arrays, named as a person reaches them, and restored into what is there."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import keras
import numpy as np
import pytest
from flax import nnx

from nbdist.engine.frameworks import each
from nbdist.engine.frameworks.keras import objects, private
from nbdist.engine.saving.parts import SavedObjects, VariableParts

OBJECTS = SavedObjects(each(lambda one: one.keeper))


def model(seed: int) -> keras.Model:
    keras.utils.set_random_seed(seed)
    found = keras.Sequential([keras.Input((2,)), keras.layers.Dense(3), keras.layers.Dropout(0.5)])
    found.compile("adam", "mse")
    found.optimizer.build(found.trainable_variables)
    return found


def module(seed: int) -> nnx.Module:
    return nnx.Linear(2, 3, rngs=nnx.Rngs(seed))


def paths(value: object) -> list[str]:
    return [part.path for part in VariableParts("w", value, OBJECTS).parts]


def test_arrays_of_a_model_are_named_as_a_person_reaches_them() -> None:
    made = {"model": model(0), "epoch": 3}
    found = paths(made)
    assert found[0] == "['epoch']"
    assert "['model'].layers[0].kernel" in found or "['model'].layers[0]._kernel" in found
    for path in found[1:]:
        value = eval(f"made{path}", {"made": made})
        assert isinstance(value, keras.Variable | jax.Array), path
    assert len(found) == 1 + len(made["model"].variables) + len(made["model"].optimizer.variables)


def test_a_model_made_again_has_the_same_names_though_keras_calls_it_otherwise() -> None:
    first, second = model(0), model(0)
    assert first.layers[0].kernel.path != second.layers[0].kernel.path
    assert paths(first) == paths(second)


@pytest.mark.parametrize("make", [model, module])
def test_what_was_restored_is_in_the_object_that_is_there(make: object) -> None:
    first, second = make(0), make(1)  # type: ignore[operator]
    there = [{"it": second}, 0]
    given = OBJECTS.given_back(there, OBJECTS.with_states("w", [{"it": first}, 7]))
    assert given[0]["it"] is second
    assert given[1] == 7
    assert (
        VariableParts("w", second, OBJECTS).digest() == VariableParts("w", first, OBJECTS).digest()
    )


def test_where_a_variable_keeps_its_value_elsewhere_it_is_assigned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    variable = keras.Variable(np.zeros(3, "f4"))
    monkeypatch.setattr(private, "live", lambda instance: {})
    objects.set_raw_value(variable, jnp.ones(3))
    assert variable.value.tolist() == [1, 1, 1]
