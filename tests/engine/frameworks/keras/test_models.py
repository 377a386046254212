"""Keras models in reports: the rule of each variable, what it asked for, what holds, and bytes."""

import jax
import keras
import numpy as np
import pytest
from keras import layers

from nbdist.contract import wire
from nbdist.contract.page import LARGE_BYTES
from nbdist.contract.snapshot import Model
from nbdist.engine.frameworks.keras import observe as models_module
from nbdist.engine.frameworks.keras.objects import model_glance
from nbdist.engine.frameworks.keras.observe import LayoutRules
from nbdist.engine.kernel.engine_calls import layout_of
from nbdist.errors import ArrayError
from tests.engine.keras_models import by_path, dense, model_parallel, new_look, seen


@pytest.fixture
def look():
    look = new_look()
    yield look
    look.unhook()
    keras.distribution.set_distribution(None)


@pytest.fixture
def placed(look):
    """A model under a `ModelParallel` of two rules, its optimizer built."""
    rules = {
        "net/dense/kernel": (None, "model"),
        "net/head/bias": ("model",),
        "no/such": ("model",),
    }
    keras.distribution.set_distribution(model_parallel(rules))
    model = dense()
    model.compile(keras.optimizers.Adam(name="adam"), "mse")
    model.optimizer.build(model.trainable_variables)
    return model


def test_k5_each_variable_tells_its_rule_axes_spec_and_bytes(look, placed):
    (read,) = seen(look, model=placed).models
    assert wire.decode(Model, wire.encode(read)) == read
    assert (read.path, read.kind, read.variables_omitted) == ("model", "Sequential", 0)
    kernel, bias, head_kernel, head_bias = read.variables[:4]
    assert (kernel.path, kernel.array, kernel.group) == (
        *("net/dense/kernel", "model.layers[0].kernel"),
        "trainable",
    )
    assert (kernel.shape, kernel.dtype, kernel.nbytes) == ((16, 32), "float32", 2048)
    assert (kernel.rule, kernel.axes) == ("net/dense/kernel", (None, "model"))
    assert (kernel.spec, kernel.device_bytes) == (((), ("model",)), 1024)
    assert (bias.rule, bias.axes, bias.spec, bias.device_bytes) == (None, None, ((),), 128)
    assert head_kernel.rule is None
    assert (head_bias.rule, head_bias.spec, head_bias.device_bytes) == (
        *("net/head/bias", (("model",),)),
        16,
    )
    assert read.unmatched == ("no/such",)


def test_k5_optimizer_slots_have_the_rule_of_the_variable_they_belong_to(look, placed):
    (model,) = seen(look, model=placed).models
    slots = by_path(model)
    momentum = slots["adam/net_dense_kernel_momentum"]
    assert (momentum.group, momentum.rule) == ("optimizer", "net/dense/kernel")
    assert (momentum.axes, momentum.spec) == ((None, "model"), ((), ("model",)))
    assert momentum.device_bytes == 1024
    assert slots["adam/net_dense_bias_velocity"].rule is None
    assert slots["adam/learning_rate"].device_bytes == 4
    assert len(slots) == 4 + 2 + 8


def test_k5_totals_are_what_each_device_really_holds(look, placed):
    (model,) = seen(look, model=placed).models
    held = {}
    for variable in placed.variables + placed.optimizer.variables:
        for shard in variable.value.addressable_shards:
            key = f"0:{shard.device.id}"
            held[key] = held.get(key, 0) + shard.data.nbytes
    reported = {device: total.nbytes for total in model.totals for device in total.devices}
    assert reported == held


def test_totals_group_devices_the_fullest_first(look):
    model = dense()
    keras.distribution.set_distribution(model_parallel())
    other = dense(name="other")
    both = keras.Sequential([keras.Input((16,)), model, layers.Dense(16), other])
    (described,) = seen(look, both=both).models
    # The first was made before the distribution: whole on one device.
    first, rest = described.totals
    assert (first.devices, len(rest.devices)) == (("0:0",), 7)
    assert first.nbytes > rest.nbytes


def test_a_large_variable_that_no_rule_matched_is_missed(look):
    keras.distribution.set_distribution(model_parallel({"net/dense/kernel": (None, "model")}))
    model = dense(units=20_000)
    (described,) = seen(look, model=model).models
    variables = by_path(described)
    assert variables["net/dense/kernel"].nbytes > LARGE_BYTES
    assert [path for path, one in variables.items() if one.missed] == []
    keras.distribution.set_distribution(model_parallel({"net/dense/bias": ("model",)}))
    model = dense(units=20_000)
    (described,) = seen(look, model=model).models
    missed = [path for path, one in by_path(described).items() if one.missed]
    # The head's kernel is smaller than the limit.
    assert missed == ["net/dense/kernel"]


@pytest.mark.parametrize(
    "make",
    [lambda: None, keras.distribution.DataParallel, model_parallel],
    ids=["none", "DataParallel", "ModelParallel"],
)
def test_nothing_is_missed_where_there_are_no_rules(look, make):
    keras.distribution.set_distribution(make())
    (described,) = seen(look, model=dense(units=20_000)).models
    assert not any(one.missed for one in described.variables)
    assert described.unmatched == ()


def test_without_a_distribution_the_layout_stays_and_no_rule_is_reported(look, placed):
    keras.distribution.set_distribution(None)
    (described,) = seen(look, model=placed).models
    variables = by_path(described)
    kernel = variables["net/dense/kernel"]
    assert (kernel.rule, kernel.axes, kernel.spec) == (
        *(None, (None, "model")),
        ((), ("model",)),
    )
    assert variables["net/dense/bias"].axes is None
    assert described.unmatched == ()


def test_a_model_made_before_its_distribution_shows_what_the_rule_asks_and_what_holds(look):
    model = dense()
    keras.distribution.set_distribution(model_parallel({"net/dense/kernel": (None, "model")}))
    (described,) = seen(look, model=model).models
    kernel = by_path(described)["net/dense/kernel"]
    assert (kernel.rule, kernel.axes) == ("net/dense/kernel", (None, "model"))
    assert (kernel.spec, kernel.device_bytes) == (None, kernel.nbytes)


def test_a_large_variable_made_before_its_distribution_is_on_one_device_and_not_missed(look):
    model = dense(units=20_000)
    keras.distribution.set_distribution(model_parallel({"no/such": ("model",)}))
    (described,) = seen(look, model=model).models
    assert not any(one.missed for one in described.variables)


def test_what_was_known_stays_while_values_are_out_of_reach(look, placed):
    before = seen(look, model=placed)
    values = [(one, one._value) for one in placed.variables + placed.optimizer.variables]
    for variable, _ in values:
        variable._value = None
    during = look.now({"model": placed})
    assert during.models[0] is before.models[0]
    assert during.arrays == before.arrays
    for variable, value in values:
        variable._value = value


def test_what_was_known_of_unlisted_variables_stays_as_well(look):
    class Mine(keras.Sequential):
        layers = variables = property(lambda self: [])

    model = Mine([keras.Input((4,)), layers.Dense(2)])
    before = seen(look, model=model)
    assert (before.arrays, len(before.models[0].variables)) == ((), 2)
    for variable in model._layers[1].variables:
        variable._value = None
    assert look.now({"model": model}).models[0] is before.models[0]


def test_a_rule_that_places_outputs_of_layers_has_matched(look):
    keras.distribution.set_distribution(model_parallel({"net/dense/output": ("batch", None)}))
    (described,) = seen(look, model=dense()).models
    assert described.unmatched == ()


def test_a_key_that_is_no_regular_expression_matches_only_itself():
    rules = LayoutRules(model_parallel({"net/(": ("model",), "net/d.*": (None, "model")}))
    assert rules.matching("net/(") == "net/("
    assert rules.matching("net/dense") == "net/d.*"
    # Wholly, as Keras does: a beginning is not enough.
    assert rules.matching("my/net/dense") is None
    assert LayoutRules(model_parallel({"net/d": ("model",)})).matching("net/dense") is None


def test_the_rule_is_the_one_keras_chooses_for_every_variable(look, placed):
    rules = LayoutRules(keras.distribution.distribution())
    layouts = keras.distribution.distribution()._layout_map
    for variable in placed.variables:
        found = rules.matching(variable.path)
        assert (layouts[found] if found else None) is layouts[variable.path]


def test_frozen_layers_are_not_trainable(look):
    model = dense()
    model.layers[0].trainable = False
    (described,) = seen(look, model=model).models
    assert [one.group for one in described.variables] == [
        *["non-trainable"] * 2,
        *["trainable"] * 2,
    ]


def test_a_model_of_two_names_counts_once_and_unbuilt_ones_not_at_all(look):
    model = dense()
    names = {"first": model, "again": model, "unbuilt": keras.Sequential([layers.Dense(2)])}
    assert [one.path for one in seen(look, **names).models] == ["first"]


def test_models_and_variables_beyond_the_bounds_are_left_out(look, monkeypatch):
    monkeypatch.setattr(models_module, "MOST_VARIABLES", 3)
    names = {f"model_{number}": dense() for number in range(models_module.MOST_MODELS + 2)}
    described = seen(look, **names).models
    assert len(described) == models_module.MOST_MODELS
    assert (len(described[0].variables), described[0].variables_omitted) == (3, 1)
    # Totals are of all of them.
    assert described[0].totals[0].nbytes == sum(v.value.nbytes for v in names["model_0"].variables)


def test_what_is_unchanged_is_the_same_object_in_the_next_look(look, placed):
    first = seen(look, model=placed).models
    second = look.now({"model": placed}).models
    assert second[0] is first[0]
    placed.layers[0].kernel.assign(np.ones((16, 32)))
    assert look.now({"model": placed}).models[0] is first[0]
    keras.distribution.set_distribution(None)
    assert look.now({"model": placed}).models[0] is not first[0]


def test_variables_are_never_compared_by_what_they_hold(look, placed):
    kernel = placed.layers[0].kernel
    assert by_path(seen(look, model=placed).models[0])[kernel.path].device_bytes == 1024
    # Of this one something else is to be said now; its `==` would compute on the devices.
    kernel._value = jax.device_put(kernel._value, jax.devices()[0])
    moved = look.now({"model": placed}).models[0]
    assert by_path(moved)[kernel.path].device_bytes == 2048


def test_without_the_private_layout_the_rule_is_found_by_path(look, placed):
    for variable in placed.variables:
        del variable._layout
    (described,) = seen(look, model=placed).models
    kernel = by_path(described)["net/dense/kernel"]
    assert (kernel.rule, kernel.axes) == ("net/dense/kernel", (None, "model"))
    for variable in placed.variables:
        variable._layout = None


def test_without_the_private_path_no_rule_matches_what_has_no_layout_of_it(look):
    model = dense()
    keras.distribution.set_distribution(model_parallel({"net/dense/kernel": (None, "model")}))
    for variable in model.variables:
        del variable._path
    (described,) = seen(look, model=model).models
    assert {(one.path, one.rule) for one in described.variables} == {("", None)}
    assert described.unmatched == ("net/dense/kernel",)


def test_without_the_private_paths_of_layers_a_rule_on_outputs_matches_nothing(look):
    keras.distribution.set_distribution(model_parallel({"net/dense/output": ("batch", None)}))
    model = dense()
    for layer in model.layers:
        del layer._path
    (described,) = seen(look, model=model).models
    assert described.unmatched == ("net/dense/output",)


def test_a_layout_is_reported_of_any_model_or_layer(look, placed):
    reported = layout_of(placed, "trainer['net']", new_look())
    assert reported.model.path == "trainer['net']"
    assert reported.model.variables[0].array == "trainer['net'].layers[0].kernel"
    assert [one.kind for one in reported.distributions] == ["ModelParallel"]
    assert reported.distributions[0].mesh in {mesh.id for mesh in reported.meshes}
    layer = layout_of(placed.layers[0], "layer", new_look()).model
    assert [one.path for one in layer.variables] == ["net/dense/kernel", "net/dense/bias"]


def test_asking_for_a_layout_hooks_nothing(look):
    from keras.src.backend.common import global_state

    before = global_state.set_global_attribute
    layout_of(dense(), "net", new_look())
    assert global_state.set_global_attribute is before


def test_what_has_no_layout_is_refused_with_what_to_do():
    with pytest.raises(ArrayError, match=r"'x' \(of type ndarray\) is no Keras model or layer"):
        layout_of(np.ones(3), "x", new_look())
    with pytest.raises(ArrayError, match=r"'net' has no variables yet. Build it first"):
        layout_of(keras.Sequential([layers.Dense(2)]), "net", new_look())


def test_in_passing_a_model_is_known_by_its_variables_and_one_of_a_process_alone_is_its_own():
    model = dense()
    one, other = model_glance(model), model_glance(dense())
    assert one == other
    assert (one.own, one.whole) == (True, False)
    assert model_glance([model]) is None
    model.rank = 1
    assert model_glance(model) != one
    del model.rank
    assert model_glance(model) == one
    model.add(layers.Dense(2, name="more"))
    assert model_glance(model) != one
