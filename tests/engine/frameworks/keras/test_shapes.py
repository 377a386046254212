"""Keras models by their shapes, with what a layout map asks for them."""

from __future__ import annotations

import re
from typing import Any

import jax
import keras
import numpy as np
import pytest
from keras.distribution import DataParallel, DeviceMesh, LayoutMap, ModelParallel, TensorLayout

import nbdist
from nbdist.errors import ArrayError


def model(*, optimizer: bool = False) -> Any:
    made = keras.Sequential(
        [
            keras.layers.Input((16,)),
            keras.layers.Dense(64, name="up"),
            keras.layers.Dense(8, name="out"),
        ],
        name="net",
    )
    if optimizer:
        made.compile(keras.optimizers.Adam(name="adam"))
        made.optimizer.build(made.trainable_variables)
    return made


def pod(*shape: int) -> DeviceMesh:
    """A mesh of devices that are not there."""
    count = int(np.prod(shape))
    return DeviceMesh(shape, ["batch", "model"], devices=[f"tpu:{n}" for n in range(count)])


def held(plan: Any) -> dict[str, tuple[Any, Any]]:
    return {one.path: (one.rule, one.device_bytes) for one in plan.arrays}


def test_variables_have_kerass_paths_and_the_rules_of_the_map() -> None:
    rules = LayoutMap(pod(4, 4))
    rules[".*up/kernel"] = (None, "model")
    rules["net/out/kernel"] = ("model", None)
    rules["nothing"] = ("model",)
    plan = nbdist.plan(model(), rules, topology="v5e-16", name="model")
    assert held(plan) == {
        "net/up/kernel": (".*up/kernel", 16 * 16 * 4),
        "net/up/bias": (None, 64 * 4),
        "net/out/kernel": ("net/out/kernel", 16 * 8 * 4),
        "net/out/bias": (None, 8 * 4),
    }
    assert plan.axes == {"batch": 4, "model": 4}
    assert plan.unmatched == ("nothing",)


def test_rules_match_as_keras_matches_them() -> None:
    made, rules = model(), LayoutMap(pod(2, 4))
    rules["up/kernel"] = (None, "model")  # not the whole path: Keras takes it for no match
    rules[".*/kernel"] = (None, "model")
    rules[".*out.*"] = ("model",)
    plan = nbdist.plan(made, rules, devices=8)
    for variable, planned in zip(made.variables, plan.arrays, strict=True):
        try:
            asked = rules[variable.path]
        except ValueError:
            assert planned.state == "impossible"
            assert "Keras refuses it: several rules match, '.*/kernel', '.*out.*'" in planned.why
            continue
        assert planned.asked == (asked is not None)
        if asked is not None:
            assert planned.spec == tuple((axis,) if axis else () for axis in asked.axes)
    assert {one.state for one in plan.arrays} == {"even", "impossible"}


def test_slots_of_an_optimizer_lie_as_their_variables() -> None:
    rules = LayoutMap(pod(2, 4))
    rules[".*up/kernel"] = (None, "model")
    plan = nbdist.plan(model(optimizer=True), rules, devices=8)
    kernels = [one for one in plan.arrays if "up" in one.path and "kernel" in one.path]
    assert [one.path for one in kernels] == [
        "net/up/kernel",
        "adam/net_up_kernel_momentum",
        "adam/net_up_kernel_velocity",
    ]
    assert {one.device_bytes for one in kernels} == {16 * 16 * 4}


def test_bytes_are_those_of_a_model_that_is_really_distributed() -> None:
    devices = keras.distribution.list_devices("cpu")[:8]
    rules = LayoutMap(DeviceMesh((2, 4), ["batch", "model"], devices=devices))
    rules[".*kernel"] = (None, "model")
    rules[".*up/bias"] = ("model",)
    planned = nbdist.plan(model(optimizer=True), rules, devices=8)
    keras.distribution.set_distribution(ModelParallel(layout_map=rules, batch_dim_name="batch"))
    try:
        real = model(optimizer=True)
    finally:
        keras.distribution.set_distribution(None)
    variables = real.variables + real.optimizer.variables
    found = {v.path: v.value.addressable_shards[0].data.nbytes for v in variables}
    assert {one.path: one.device_bytes for one in planned.arrays} == found
    assert isinstance(variables[0].value, jax.Array)
    # Without specs, it has those that it was made with.
    own = nbdist.plan(real)
    assert {one.path: one.device_bytes for one in own.arrays} == found


def test_distributions_are_taken_for_their_maps() -> None:
    rules = LayoutMap(pod(2, 4))
    rules[".*kernel"] = TensorLayout((None, "model"))
    parallel = ModelParallel(layout_map=rules, batch_dim_name="batch", auto_shard_dataset=False)
    assert held(nbdist.plan(model(), parallel)) == held(nbdist.plan(model(), rules))
    mesh = DeviceMesh((8,), ["batch"], devices=[f"tpu:{n}" for n in range(8)])
    plan = nbdist.plan(model(), DataParallel(device_mesh=mesh, auto_shard_dataset=False))
    assert (plan.axes, len(plan.whole)) == ({"batch": 8}, 4)
    assert "no spec is given" not in plan.text()


def test_rules_for_what_layers_put_out_count_as_matched() -> None:
    rules = LayoutMap(pod(2, 4))
    rules[".*up/output"] = ("batch", None)
    rules[".*down/output"] = ("batch", None)
    assert nbdist.plan(model(), rules).unmatched == (".*down/output",)


def test_a_variable_a_list_of_them_and_an_optimizer_can_be_planned() -> None:
    made = model(optimizer=True)
    assert len(nbdist.plan(made.trainable_variables, mesh="x=2").arrays) == 4
    assert len(nbdist.plan(made.variables[0], mesh="x=2").arrays) == 1
    assert len(nbdist.plan(made.optimizer, mesh="x=2").arrays) == len(made.optimizer.variables)
    bfloat = keras.Variable(np.zeros((4, 4)), dtype="bfloat16")
    assert nbdist.plan(bfloat, mesh="x=2").arrays[0].nbytes == 32


def test_a_model_without_variables_is_told_to_be_built() -> None:
    with pytest.raises(ArrayError, match=re.escape("Build it first, such as model.build(")):
        nbdist.plan(keras.Sequential([keras.layers.Dense(3)]), mesh="x=2")
