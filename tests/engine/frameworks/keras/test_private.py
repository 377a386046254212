"""Private API of Keras: all of it is in this release; tests beside this one show what happens without it."""

from __future__ import annotations

from typing import Any

import jax
import keras
import pytest

from nbdist.engine.frameworks.hooks import PrivateName
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.private import PrivateAttribute

ELSEWHERE = {"JAX_STATE", "RAW_VALUE", "COPIES"}
"""Attributes of a model while `fit` runs, of variables in NNX mode, and of TensorFlow's mirrored variables."""


class Model(keras.Model):
    """A model with layers that have variables and a seed."""

    def __init__(self) -> None:
        super().__init__()
        self.dense, self.drop = keras.layers.Dense(4), keras.layers.Dropout(0.5)

    def call(self, x: Any) -> Any:
        return self.drop(self.dense(x))


def having_each() -> list[Any]:
    """Objects of Keras that together have all private attributes."""
    mesh = keras.distribution.DeviceMesh((8,), ("data",), keras.distribution.list_devices())
    map_ = keras.distribution.LayoutMap(mesh)
    map_["kernel"] = (None, "data")
    parallel = keras.distribution.ModelParallel(layout_map=map_, batch_dim_name="data")
    model = Model()
    model.compile("adam", "mse")
    assert isinstance(mesh.backend_mesh, jax.sharding.Mesh)
    model(jax.numpy.ones((2, 3)))
    model.optimizer.build(model.trainable_variables)
    inputs = keras.Input((3,))
    functional = keras.Model(inputs, keras.layers.Dense(2)(inputs))
    variables = model.dense.kernel
    return [mesh, map_, map_["kernel"], parallel, model, model.dense, model.drop, variables,
            model.optimizer, functional]  # fmt: skip


def test_each_private_name_and_attribute_is_in_this_release() -> None:
    names = {n: one for n, one in vars(private).items() if isinstance(one, PrivateName)}
    assert [name for name, one in names.items() if one.get() is None] == []
    attributes = {n: one for n, one in vars(private).items() if isinstance(one, PrivateAttribute)}
    found = having_each()
    missing = {n for n, one in attributes.items() if not any(map(one.is_kept, found))}
    assert missing <= ELSEWHERE


@pytest.mark.parametrize("back_end", ["jax", "tensorflow"])
def test_the_library_of_a_back_end_is_found(back_end: str) -> None:
    found = private.back_end_library(back_end, imported=back_end == "jax")
    assert hasattr(found, "initialize") == (back_end == "jax") or found is None
    assert private.back_end_library("none", imported=False) is None
