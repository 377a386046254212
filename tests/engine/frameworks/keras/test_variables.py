"""Each variable of Keras models, layers and optimizers, by an expression that reaches it."""

import gc
import weakref

import keras
import numpy as np
import pytest
from keras import layers

from nbdist.engine.frameworks import array_of
from nbdist.engine.frameworks.jax.arrays import offer_array
from nbdist.engine.frameworks.jax.inspection import explain
from nbdist.engine.frameworks.keras import objects
from nbdist.engine.frameworks.keras.objects import (
    VariablePlaces,
    lent_values,
    raw_value,
)
from nbdist.errors import ArrayError
from tests.engine.keras_models import dense, new_look, seen
from tests.engine.walking import Met


def reached(**names):
    """The paths met; each is evaluated and must give the variable that holds the very array."""
    met = Met(names)
    for path, array in met.arrays.items():
        assert raw_value(eval(path, dict(names))) is array, path
    return list(met.arrays)


def test_layers_by_number_and_variables_by_name():
    inputs = [keras.Input((16,)), layers.Dense(8), layers.Dropout(0.1), layers.BatchNormalization()]
    model = keras.Sequential(inputs)
    assert reached(model=model) == [
        "model.layers[0].kernel",
        "model.layers[0].bias",
        "model.layers[1].seed_generator.state",
        "model.layers[2].gamma",
        "model.layers[2].beta",
        "model.layers[2].moving_mean",
        "model.layers[2].moving_variance",
    ]


def test_functional_models_count_their_layers_as_keras_does():
    inputs = keras.Input((4,))
    outputs = layers.Dense(2)(layers.Rescaling(2.0)(inputs))
    model = keras.Model(inputs, outputs)
    assert reached(model=model) == ["model.layers[2].kernel", "model.layers[2].bias"]


def test_an_optimizer_s_variables_by_number():
    model = dense()
    model.compile("adam", "mse")
    model.optimizer.build(model.trainable_variables)
    found = reached(model=model, alone=keras.optimizers.SGD())
    assert [p for p in found if "model.optimizer" in p] == [
        f"model.optimizer.variables[{number}]" for number in range(2 + 2 * 4)
    ]
    assert [p for p in found if p.startswith("alone")] == [
        "alone.variables[0]",
        "alone.variables[1]",
    ]


def test_an_optimizer_inside_one_that_scales_the_loss():
    model = dense()
    model.compile(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD()), "mse")
    model.optimizer.build(model.trainable_variables)
    found = [path for path in reached(model=model) if "optimizer" in path]
    assert len(found) == len(model.optimizer.variables) > 3


@keras.saving.register_keras_serializable()
class Own(keras.Model):
    """Layers in attributes, lists and dictionaries, and a variable under another name."""

    def __init__(self):
        super().__init__()
        self.blocks = [layers.Dense(4), layers.Dense(4)]
        self.heads = {"a": layers.Dense(2)}
        self._hidden = layers.Dense(3)
        self.scale = self.add_weight(shape=(4,), name="something")
        self.attention = layers.MultiHeadAttention(2, 4)
        self.recurrent = layers.Bidirectional(layers.GRU(3))

    def call(self, x):
        for block in self.blocks:
            x = block(x)
        x = self.heads["a"](x * self.scale) + self._hidden(x)[:, :2]
        y = x[:, None]
        return self.recurrent(self.attention(y, y))


def test_a_model_of_one_s_own_with_layers_anywhere():
    model = Own()
    model(np.ones((2, 4), np.float32))
    found = reached(model=model)
    assert len(found) == len(model.variables)
    assert "model.scale" in found
    assert {"model.layers[0].kernel", "model.layers[1].kernel"} <= set(found)
    assert any(".query_dense.kernel" in path for path in found)
    assert any(".forward_layer.cell.kernel" in path for path in found)


def test_a_layer_of_one_s_own_reaches_its_layers_by_attribute():
    class Block(layers.Layer):
        def __init__(self):
            super().__init__()
            self.inner = layers.Dense(2)
            self.more = [layers.Dense(2)]
            self._private = layers.Dense(2)

        def call(self, x):
            return self._private(self.more[0](self.inner(x)))

    block = Block()
    block(np.ones((1, 2), np.float32))
    assert reached(block=block) == [
        "block.inner.kernel",
        "block.inner.bias",
        "block.more[0].kernel",
        "block.more[0].bias",
        "block.variables[4]",
        "block.variables[5]",
    ]


def test_a_property_that_computes_something_else_is_not_taken_for_the_variable():
    layer = layers.Dense(4)
    layer.build((None, 8))
    assert "layer.kernel" in reached(layer=layer)
    layer.enable_lora(2)
    found = reached(layer=layer)
    assert "layer.kernel" not in found
    assert len(found) == len(layer.variables) == 4


def test_nothing_of_a_user_s_class_runs():
    class Mine(keras.Sequential):
        armed = False

        def guard(self):
            if self.armed:
                raise AssertionError("ran what a user wrote")

        @property
        def layers(self):
            self.guard()
            return super().layers

        @property
        def variables(self):
            self.guard()
            return super().variables

        def __eq__(self, other):
            self.guard()
            return self is other

        def __hash__(self):
            self.guard()
            return 1

    model = Mine([keras.Input((4,)), layers.Dense(2)])
    Mine.armed = True
    # Its own `layers` and `variables` answer: no expression is certain.
    assert Met({"model": model}).arrays == {}
    look = new_look()
    (described,) = seen(look, model=model).models
    look.unhook()
    reported = [(one.path.split("/")[-1], one.array) for one in described.variables]
    assert reported == [("kernel", None), ("bias", None)]


def test_variables_alone_and_unbuilt_layers():
    names = {"v": keras.Variable(np.ones(3, np.float32)), "layer": layers.Dense(3)}
    assert reached(**names) == ["v"]


def test_what_fit_returns_does_not_name_the_model_again():
    model = dense()
    model.compile("sgd", "mse")
    history = model.fit(np.ones((8, 16)), np.ones((8, 8)), verbose=0)
    assert all(
        path.startswith("model.") for path in Met({"model": model, "history": history}).arrays
    )


def test_places_are_found_anew_when_variables_come():
    places, model = VariablePlaces(), dense()
    first = places.of(model)
    assert [place for place, _ in places.of(model)] == [place for place, _ in first]
    model.compile("adam", "mse")
    assert len(places.of(model)) == len(first) + 2
    model.optimizer.build(model.trainable_variables)
    assert len(places.of(model)) == len(first) + 10


def test_no_model_is_kept_alive():
    look, model = new_look(), dense()
    seen(look, model=model)
    watched, variable = weakref.ref(model), weakref.ref(model.layers[0].kernel)
    del model
    look.now({})
    gc.collect()
    look.unhook()
    assert (watched(), variable()) == (None, None)


class Slow(keras.callbacks.Callback):
    """Looks at the model between two steps of a `fit`."""

    def __init__(self, look, names):
        super().__init__()
        self.look, self.names, self.during = look, names, []

    def on_train_batch_begin(self, batch, logs=None):
        self.during.append((self.names["model"].layers[0].kernel._value, self.look.now(self.names)))

    def on_epoch_begin(self, epoch, logs=None):
        self.during.append((None, self.look.now(self.names)))


def test_the_variables_stay_while_fit_has_their_values():
    look, model = new_look(), dense()
    model.compile("sgd", "mse")
    model.optimizer.build(model.trainable_variables)
    before = seen(look, model=model)
    watching = Slow(look, {"model": model})
    x, y = np.ones((32, 16), np.float32), np.ones((32, 8), np.float32)
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[watching])
    after = look.now({"model": model})
    look.unhook()
    # Keras really had taken them out.
    assert [value for value, _ in watching.during].count(None) > 1
    for _, during in watching.during:
        assert [a.path for a in during.arrays] == [a.path for a in before.arrays]
        assert during.models == before.models
    assert after.models == before.models


def test_values_that_fit_has_are_found_though_they_were_never_seen_before():
    model = dense()
    model.compile("sgd", "mse")
    met = []

    class Look(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            met.append(len(lent_values(model)))

    x, y = np.ones((16, 16), np.float32), np.ones((16, 8), np.float32)
    model.fit(x, y, batch_size=8, verbose=0, callbacks=[Look()])
    assert met == [len(model.variables) + len(model.optimizer.variables)] * 2
    assert lent_values(model) == {}


def test_without_the_private_value_nothing_is_shown():
    model, variable = dense(), keras.Variable(np.ones(3))
    for one in [variable, *model.variables]:
        del one._value
    look = new_look()
    found = seen(look, model=model, v=variable)
    look.unhook()
    assert (found.arrays, found.models) == ((), ())


def test_without_the_private_lists_a_layer_has_nothing():
    model = keras.Sequential([keras.Input((4,)), layers.Dense(2), layers.Dropout(0.1)])
    first, dropout = model.layers
    assert len(Met({"model": model}).arrays) == 3
    vars(dropout).pop("_seed_generators")
    assert set(Met({"model": model}).arrays) == {"model.layers[0].kernel", "model.layers[0].bias"}
    vars(first).pop("_non_trainable_variables")
    vars(first).pop("_trainable_variables")
    assert Met({"model": model}).arrays == {}
    other = dense()
    vars(other).pop("_layers")
    assert Met({"other": other}).arrays == {}


def test_what_is_lent_and_is_no_array_is_left_out():
    look, model = new_look(), dense()
    names = {"model": model}
    for variable in model.variables:
        variable._value = None
    model._jax_state = {"trainable_variables": [object()] * 4, "non_trainable_variables": []}
    found = seen(look, **names)
    look.unhook()
    assert (found.arrays, found.models) == ((), ())


def test_without_keras_there_is_nothing_to_look_into(monkeypatch):
    names = {"v": keras.Variable(np.ones(3)), "model": dense()}
    for name in ("keras", "keras.optimizers"):
        monkeypatch.delitem(objects.is_layer.__globals__["sys"].modules, name)
    assert Met(names).arrays == {}


def test_a_variable_is_explained_and_offered_as_the_array_it_holds():
    variable = keras.Variable(np.arange(6, dtype=np.float32).reshape(2, 3))
    reported = explain(variable, "v")
    (array,) = reported.arrays
    assert (array.path, array.shape) == ("v", (2, 3))
    offered = offer_array(array_of(variable), "v")
    assert (offered.sharding, offered.shape) == (None, [2, 3])
    assert offered.pieces[0].read().tolist() == [[0, 1, 2], [3, 4, 5]]


def test_an_autocast_scope_changes_nothing_that_is_shown():
    variable = keras.Variable(np.ones(3, np.float32))
    with keras.src.backend.AutocastScope("float16"):
        assert str(variable.value.dtype) == "float16"
        assert explain(variable, "v").arrays[0].dtype == "float32"


def test_a_variable_without_a_value_is_refused():
    variable = keras.Variable(np.ones(3))
    variable._value = None
    with pytest.raises(ArrayError, match="holds no JAX arrays"):
        explain(variable, "v")
