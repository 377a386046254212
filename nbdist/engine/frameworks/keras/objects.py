"""Keras' objects and their variables: where these are, and how both leave a process.

`VariablePlaces` finds the variables of models, layers and optimizers, and the arrays that they hold.
`KerasObjects` sends models and settings to a new process; the back end sends their arrays. `model_digest` and
`model_glance` describe a model, layer or optimizer so that processes can compare it. `state` returns the arrays
that a save by shard writes, and `set_state` sets those that were read.

Keras' own pickles are of no use here. They read the whole values from all processes, and unpickling makes the
variables anew. Making a variable under a distribution is a collective, in which a new process would wait for ever.
So objects are pickled by their `__dict__` (`reduce`).
"""

from __future__ import annotations

import copyreg
import hashlib
import sys
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.expressions import (
    DEEPEST,
    MOST_VARIABLES,
    answers_as_keras,
    defining,
    inner_layers,
    is_layer,
    is_model,
    is_optimizer,
    is_variable,
    items,
    own_variables,
    pairs,
    seed_generators,
    suffixes,
)
from nbdist.engine.frameworks.keras.private import attribute
from nbdist.engine.namespace.things import Objects
from nbdist.engine.probe.classes import (
    Lent,
    Library,
    Look,
    bases_of,
    class_dict,
    gives_what_it_keeps,
    package,
)
from nbdist.engine.probe.samples import PLAIN, SeenArray, glance
from nbdist.engine.saving.parts import Suffix
from nbdist.engine.values.arrays import OfferedArray, Parts, digest


@dataclass(frozen=True, slots=True, eq=False)
class VariablePlace:
    """A variable of a layer or model, and the rest of the expression that reaches it, if one does."""

    suffix: str | None
    variable: weakref.ref[Any]
    of_optimizer: bool


class VariablePlaces(Library):
    """The places of the variables of layers and models; searched again only when the number of variables changes.

    Keeps no model alive. `look_into` finds all arrays that objects of Keras hold.
    """

    def __init__(self) -> None:
        self._known: dict[int, tuple[weakref.ref[Any], tuple[int, ...], list[VariablePlace]]] = {}

    def look_into(self, bases: tuple[type, ...]) -> Look | None:
        """Return a function that lists what objects of a class hold; None for a class that is not Keras'.

        Args:
          bases: The class and its bases, in order of resolution.
        """
        if is_variable(bases):
            look: Look | None = _look_into_variable
        elif is_layer(bases):
            look = self._look_into_layer
        else:
            look = _look_into_optimizer if is_optimizer(bases) else None
        # If a class reads attributes in its own way, no expression is known to reach its variables.
        return look if look is None or gives_what_it_keeps(bases) else _nothing

    def is_model(self, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are models, and read attributes in the usual way."""
        return is_model(bases) and gives_what_it_keeps(bases)

    def has_layout(self, bases: tuple[type, ...]) -> bool:
        """Return whether objects of a class are layers; models are layers, too."""
        return is_layer(bases)

    def of(self, layer: Any) -> list[tuple[VariablePlace, Any]]:
        """Return all variables of a layer, and of the optimizer of a model, each with its place."""
        counts = _counts(layer)
        known = self._known.get(id(layer))
        if known is not None and known[0]() is layer and known[1] == counts:
            found = [(place, place.variable()) for place in known[2]]
            if all(variable is not None for _, variable in found):
                return found
        places = _places(layer)
        self._known = {i: one for i, one in self._known.items() if one[0]() is not None}
        self._known[id(layer)] = (weakref.ref(layer), counts, [place for place, _ in places])
        return places

    def _look_into_layer(self, layer: Any) -> Iterable[tuple[str, Any]]:
        lent = lent_values(layer)
        for place, variable in self.of(layer):
            if place.suffix is not None:
                value = raw_value(variable)
                # None while a running `fit` has the value, and before the value is made.
                if value is None:
                    value = Lent(lent.get(id(variable)), _shape(variable))
                yield place.suffix, value


def raw_value(variable: Any) -> Any | None:
    """Return the array of a layer's variable; None before the array is made, and while a running `fit` has it."""
    value = private.VALUE.of(variable)
    if value is not None:
        return value
    if not is_variable(bases_of(type(variable))):
        return variable  # `tf_keras` has TensorFlow's own variables
    in_nnx_mode = private.VALUE.name in class_dict(type(variable))
    return private.RAW_VALUE.of(variable) if in_nnx_mode else None


def set_raw_value(variable: Any, value: Any) -> None:
    """Set a variable's array to another of the same shape and dtype, and keep the new array's sharding.

    Where Flax NNX keeps the value, `assign` is called.
    """
    if private.VALUE.is_kept(variable):
        setattr(variable, private.VALUE.name, value)
    else:
        variable.assign(value)


def path_of(variable: Any) -> str:
    """Return a variable's path in Keras, such as `"sequential/dense/kernel"`; empty if it has none."""
    path = private.PATH.of(variable)
    return path.removesuffix(":0") if isinstance(path, str) else ""


def is_trainable(variable: Any) -> bool:
    """Return whether a variable itself is marked as trainable; its layer or model is not asked."""
    copies = items(private.COPIES.of(variable))
    return bool(private.TRAINABLE.of(copies[0] if copies else variable))


def unwrapped(value: Any) -> Any:
    """Return the array of a `keras.Variable`; a variable without a value, and anything else, as it is."""
    held = raw_value(value) if is_variable(bases_of(type(value))) else None
    return held if held is not None else value


def _shape(variable: Any) -> tuple[int, ...]:
    shape = private.SHAPE.of(variable)
    return shape if type(shape) is tuple else ()


def _nothing(value: Any) -> Iterable[tuple[str, Any]]:
    return ()


def _look_into_variable(variable: Any) -> Iterable[tuple[str, Any]]:
    return [("", raw_value(variable))]


def _look_into_optimizer(optimizer: Any) -> Iterable[tuple[str, Any]]:
    if not answers_as_keras(optimizer, "variables"):
        return []
    found = enumerate(optimizer_variables(optimizer))
    return [(f".variables[{number}]", raw_value(variable)) for number, variable in found]


def _places(layer: Any) -> list[tuple[VariablePlace, Any]]:
    names = suffixes(layer)
    # The property of `tf_keras` has another order than `layer_variables`.
    owner = defining(type(layer), "variables")
    numbered = owner is not None and package(owner) == "keras"
    found = []
    for number, variable in enumerate(layer_variables(layer)):
        suffix = names.get(id(variable)) or (f".variables[{number}]" if numbered else None)
        found.append((VariablePlace(suffix, weakref.ref(variable), of_optimizer=False), variable))
    optimizer = attribute(layer, "optimizer")
    if is_optimizer(bases_of(type(optimizer))):
        reached = answers_as_keras(optimizer, "variables")
        for number, variable in enumerate(optimizer_variables(optimizer)):
            suffix = f".optimizer.variables[{number}]" if reached else None
            found.append(
                (VariablePlace(suffix, weakref.ref(variable), of_optimizer=True), variable)
            )
    return found


def _counts(layer: Any) -> tuple[int, ...]:
    """Return numbers that change when variables come or go: the layers, and how many variables each has."""
    found: list[int] = []
    queue = [(layer, 0)]
    while queue:
        one, level = queue.pop()
        found += (id(one), len(own_variables(one)), len(seed_generators(one)))
        if level < DEEPEST:
            queue += [(inner, level + 1) for inner in inner_layers(one)]
    optimizer = attribute(layer, "optimizer")
    return (*found, id(optimizer), len(optimizer_variables(optimizer)))


def layer_variables(layer: Any, *, level: int = 0) -> list[Any]:
    """Return all variables of a layer, in the order of its property `variables`."""
    found = list({id(variable): variable for variable in own_variables(layer)}.values())
    seen = set(map(id, found))
    states = [attribute(one, "state") for one in seed_generators(layer)]
    found += [state for state in states if is_variable(bases_of(type(state)))]
    if level < DEEPEST:
        for inner in inner_layers(layer):
            for variable in layer_variables(inner, level=level + 1):
                if id(variable) not in seen:
                    seen.add(id(variable))
                    found.append(variable)
    return found[:MOST_VARIABLES]


def optimizer_variables(optimizer: Any) -> list[Any]:
    """Return all variables of an optimizer, in the order of its property `variables`; none for anything else.

    An optimizer that scales the loss adds the variables of its inner optimizer.
    """
    inner = attribute(optimizer, "inner_optimizer")
    both = (optimizer,) if inner is None else (optimizer, inner)
    return [found for one in both for found in items(private.OPTIMIZER_VARIABLES.of(one))]


def lent_values(model: Any) -> dict[int, Any]:
    """Return the values that a running `fit` has taken out of a model's variables, by `id(variable)`."""
    state = dict(pairs(private.JAX_STATE.of(model)))
    if not state:
        return {}
    every = layer_variables(model)
    trains = private.TRAINABLE.of(model) is not False
    trainable = [variable for variable in every if trains and private.TRAINABLE.of(variable)]
    among = set(map(id, trainable))
    groups = {
        "trainable_variables": trainable,
        "non_trainable_variables": [v for v in every if id(v) not in among],
        "optimizer_variables": optimizer_variables(attribute(model, "optimizer")),
    }
    found: dict[int, Any] = {}
    for name, variables in groups.items():
        values = items(state.get(name))
        if len(values) == len(variables):
            found |= {id(v): value for v, value in zip(variables, values, strict=True)}
    return found


_made: list[Any] = []
"""The objects that have come from another process, until all objects are there and `finish` completes them."""

COMPILED = ("train_function", "test_function", "predict_function")
"""The attributes of a model that the model compiles again when they are None."""


def reduce(value: Any) -> tuple[Any, ...] | None:
    """Return how to pickle an object of Keras, as `object.__reduce_ex__` does; None for anything else.

    Keras offers no public way to copy an object with its variables as they are.
    """
    bases = type(value).__mro__
    if private.SAVEABLE.get() in bases:
        state = {**value.__dict__, **{name: None for name in COMPILED if name in value.__dict__}}
        return *_empty(value), state, None, None, _fill
    if private.DISTRIBUTION.get() in bases or private.PARTS.get() in bases:
        return *_empty(value), value.__dict__, None, None, _fill
    if private.is_part(value):
        for kind in (list, dict, set):
            if kind in bases:
                return *_empty(value), (kind(value), value.__dict__), None, None, _fill_container
    return None


def finish(process_id: int, processes: int) -> None:
    """Set again the entries of the objects that hold an `id()` of another object, or this process's own number."""
    made, _made[:] = [*_made], []
    for one in made:
        private.renew(one.__dict__, process_id, processes)


def _empty(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return copyreg.__newobj__, (type(value),)  # type: ignore[attr-defined]


def _fill(one: Any, state: dict[str, Any]) -> None:
    """Set attributes without the class's own `__setattr__`, which would register variables and layers as new."""
    one.__dict__.update(state)
    _made.append(one)


def _fill_container(one: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """Fill a container without the class's own methods, for the same reason as `_fill`."""
    values, attributes = state
    one.__dict__.update(attributes)
    if isinstance(one, list):
        list.extend(one, values)
    elif isinstance(one, dict):
        dict.update(one, values)
    else:
        set.update(one, values)


STATE = (
    "distribution",
    "dtype_policy",
    "flash_attention",
    "global_seed_generator",
    "global_random_seed",
    "object_name_uids",
)
"""The attributes of Keras' thread-local state: settings, and how many layers of each name there are."""


class KerasObjects(Objects):
    """Keras' objects and settings on one process, for the transfer of a namespace to a new process."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle an object of Keras; None for anything else."""
        return reduce(value)

    def settings(self) -> Any:
        """Return the distribution that is set, Keras' other settings, and the registered classes."""
        import keras

        state, config = private.imported_tracker(), keras.config
        return {
            "state": {name: getattr(state, name) for name in STATE if hasattr(state, name)},
            "floatx": config.floatx(),
            "epsilon": config.epsilon(),
            "image_data_format": config.image_data_format(),
            "custom_objects": dict(keras.saving.get_custom_objects()),
        }

    def set(self, settings: Any) -> None:
        """Set the settings; the distribution directly, since Keras' functions for it wait for other processes."""
        import keras

        finish(self._process_id, sys.modules["jax"].process_count())
        state = private.imported_tracker()
        for name, value in settings["state"].items():
            setattr(state, name, value)
        keras.config.set_floatx(settings["floatx"])
        keras.config.set_epsilon(settings["epsilon"])
        keras.config.set_image_data_format(settings["image_data_format"])
        keras.saving.get_custom_objects().update(settings["custom_objects"])


def model_digest(
    value: Any, path: str, offer_array: Callable[[Any, str], OfferedArray | None]
) -> str | None:
    """Return a digest, equal for models of the same variables with equal values; None for any other object.

    Layers and optimizers have one, too. Pickles of equal models differ, since a pickle holds the time of pickling.
    For a variable that spans processes, the digest covers dtype, shape and sharding, not the values.

    Args:
      value: Any object.
      path: The expression that reaches the value, for error texts.
      offer_array: The `offer_array` of the session's framework.

    Raises:
      ArrayError: A variable holds no values.
    """
    variables = _all_variables(value)
    if variables is None:
        return None
    found = hashlib.sha1(usedforsecurity=False)
    for variable in variables:
        offered = offer_array(variable, path)
        found.update(f"{path_of(variable)}\0".encode())
        if offered is not None:
            found.update(f"{offered.dtype} {offered.shape} {offered.sharding}\0".encode())
        if offered is not None and offered.sharding is None:
            found.update(digest(offered.pieces[0].read()).encode())
    return found.hexdigest()


def model_glance(value: Any) -> SeenArray | None:
    """Return a description of a model, layer or optimizer, without its variables' values; None for others."""
    variables = _all_variables(value)
    if variables is None:
        return None
    arrays = [unwrapped(variable) for variable in variables]
    seen = [glance(array) for array in arrays]
    # A random state on several processes belongs to all of them: Keras draws the same numbers on each.
    alone = any(getattr(array, "is_fully_addressable", True) for array in arrays)
    texts = [
        (path_of(variable), one and one.text) for variable, one in zip(variables, seen, strict=True)
    ]
    attributes = {name: one for name, one in vars(value).items() if type(one) in PLAIN}
    return SeenArray(f"variables {texts} attributes {attributes}", whole=not alone, own=alone)


class KerasParts(Parts):
    """Parts of values of Keras: a variable is its array; models are compared as a whole."""

    unwrapped = staticmethod(unwrapped)
    array_of = staticmethod(unwrapped)
    model_digest = staticmethod(model_digest)


def _all_variables(value: Any) -> Sequence[Any] | None:
    bases = bases_of(type(value))
    if is_layer(bases):
        return layer_variables(value)
    return optimizer_variables(value) if is_optimizer(bases) else None


title = "Keras"


def keeps_its_own(value: Any) -> bool:
    """Return whether this is an object of one of Keras' classes, or of a class derived from one."""
    return any(base.__module__.startswith(("keras.", "tf_keras.")) for base in type(value).__mro__)


def state(value: Any) -> Mapping[str, Any] | None:
    """Return the arrays of a layer, optimizer, variable, or model with its optimizer, by suffix; else None.

    Suffixes identify the arrays: a layer that is made a second time gets other names in Keras, but the same
    suffixes.
    """
    found = _variables(value)
    if found is None:
        return None
    return {Suffix(suffix): raw_value(variable) for suffix, variable in found.items()}


def set_state(value: Any, state: Mapping[str, Any]) -> None:
    """Set the arrays of an object to others of the same shapes and dtypes."""
    for suffix, variable in (_variables(value) or {}).items():
        set_raw_value(variable, state[suffix])


def _variables(value: Any) -> dict[str, Any] | None:
    bases = type(value).__mro__
    if is_variable(bases):
        return {".value": value}
    if is_optimizer(bases):
        return {f".variables[{n}]": one for n, one in enumerate(optimizer_variables(value))}
    if not is_layer(bases):
        return None
    found = VariablePlaces().of(value)
    return {
        place.suffix or f".{path_of(variable)}#{n}": variable
        for n, (place, variable) in enumerate(found)
    }
