"""The variables of Keras models, layers and optimizers, and the values they hold."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
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
from nbdist.engine.probe.classes import (
    Lent,
    Library,
    Look,
    bases_of,
    class_dict,
    gives_what_it_keeps,
    package,
)


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
