"""The variables of Keras models, layers and optimizers, and the expressions that reach them.

Everything is found through `sys.modules`; where Keras has not been imported there is nothing to find.
"""

from __future__ import annotations

import itertools
import keyword
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from nbdist.engine.keras.instance import (
    attribute,
    bases_of,
    class_dict,
    defining,
    items,
    kept,
    package,
    pairs,
)

MOST_VARIABLES = 4096
"""Of one model."""

DEEPEST = 32
"""Levels of layers within layers."""


Look = Callable[[Any], Iterable[tuple[str, Any]]]
"""Lists what an object holds: (the rest of the expression that reaches it, the value)."""


class Lent:
    """The value of a variable while a running `fit` has it; its memory may be given away already.

    Args:
      array: The value as the last step gave it; None where it is out of reach.
      shape: Of the variable.
    """

    __slots__ = ("array", "shape")

    def __init__(self, array: Any | None, shape: tuple[int, ...]) -> None:
        self.array = array
        self.shape = shape


def is_variable(bases: Iterable[type]) -> bool:
    """Whether a class is `keras.Variable` or derived from it."""
    return _is_one_of(bases, getattr(sys.modules.get("keras"), "Variable", None))


def is_layer(bases: Iterable[type]) -> bool:
    """Whether a class is a `keras.Layer`, models included."""
    return _is_one_of(bases, getattr(sys.modules.get("keras"), "Layer", None))


def is_model(bases: Iterable[type]) -> bool:
    """Whether a class is a `keras.Model`."""
    return _is_one_of(bases, getattr(sys.modules.get("keras"), "Model", None))


def is_optimizer(bases: Iterable[type]) -> bool:
    """Whether a class is a `keras.optimizers.Optimizer`."""
    optimizers = sys.modules.get("keras.optimizers")
    return _is_one_of(bases, getattr(optimizers, "Optimizer", None))


def _is_one_of(bases: Iterable[type], wanted: object) -> bool:
    return wanted is not None and any(base is wanted for base in bases)


def look_into(bases: tuple[type, ...]) -> Look | None:
    """How to list what objects of a class hold, where the class is Keras' or derived from it.

    Args:
      bases: The class and its bases, in order of resolution.
    """
    if sys.modules.get("keras") is None:
        return None
    if is_variable(bases):
        return look_into_variable
    if is_layer(bases):
        return look_into_layer
    return look_into_optimizer if is_optimizer(bases) else None


def raw_value(variable: Any) -> Any | None:
    """What a `keras.Variable` holds: an array of its back end; None before it is made, and while `fit` has it.

    Private API: `Variable._value`. The public `value` casts to another dtype inside an autocast scope and makes
    a value where there is none. Without it no variable is shown.
    """
    value = attribute(variable, "_value")
    if value is None and "_value" in class_dict(
        type(variable)
    ):  # Keras' NNX mode keeps it elsewhere
        value = attribute(variable, "_raw_value")
    return value


def look_into_variable(variable: Any) -> Iterable[tuple[str, Any]]:
    """The value of a variable by itself: `%dist_shards v` takes the variable's own name."""
    return [("", raw_value(variable))]


def look_into_optimizer(optimizer: Any) -> Iterable[tuple[str, Any]]:
    """The values of an optimizer's variables, by `.variables[0]`."""
    if not _answers_as_keras(optimizer, "variables"):
        return []
    found = enumerate(optimizer_variables(optimizer))
    return [(f".variables[{i}]", raw_value(variable)) for i, variable in found]


def look_into_layer(layer: Any) -> Iterable[tuple[str, Any]]:
    """The values of all variables of a layer or model, its optimizer's included."""
    lent = lent_values(layer)
    for suffix, variable in places(layer):
        value = raw_value(variable)
        # None while a running `fit` has it, and before it is made.
        yield suffix, value if value is not None else Lent(lent.get(id(variable)), _shape(variable))


def _shape(variable: Any) -> tuple[int, ...]:
    shape = attribute(variable, "_shape")
    return shape if type(shape) is tuple else ()


def places(layer: Any) -> Iterator[tuple[str, Any]]:
    """The variables of a layer or model that an expression reaches, with the rest of that expression."""
    names = suffixes(layer)
    numbered = _answers_as_keras(layer, "variables")
    for number, variable in enumerate(layer_variables(layer)):
        suffix = names.get(id(variable)) or (f".variables[{number}]" if numbered else None)
        if suffix is not None:
            yield suffix, variable
    optimizer = attribute(layer, "optimizer")
    if is_optimizer(bases_of(type(optimizer))) and _answers_as_keras(optimizer, "variables"):
        for number, variable in enumerate(optimizer_variables(optimizer)):
            yield f".optimizer.variables[{number}]", variable


def layer_variables(layer: Any, *, level: int = 0) -> list[Any]:
    """All variables of a layer, in the order of its property `variables`.

    Private API: the lists behind that property, which a user's class may override. Without them a layer has
    none.
    """
    own = [
        *items(attribute(layer, "_trainable_variables")),
        *items(attribute(layer, "_non_trainable_variables")),
    ]
    found = list({id(variable): variable for variable in own}.values())
    seen = set(map(id, found))
    generators = items(attribute(layer, "_seed_generators"))
    found += [attribute(generator, "state") for generator in generators]
    if level < DEEPEST:
        for inner in items(attribute(layer, "_layers")):
            for variable in layer_variables(inner, level=level + 1):
                if id(variable) not in seen:
                    seen.add(id(variable))
                    found.append(variable)
    return found[:MOST_VARIABLES]


def optimizer_variables(optimizer: Any) -> list[Any]:
    """All variables of an optimizer, in the order of its property `variables`.

    Private API: `Optimizer._variables`, behind that property, which a user's class may override. An optimizer
    that scales the loss adds those of the one inside it.
    """
    found = items(attribute(optimizer, "_variables"))
    inner = attribute(optimizer, "inner_optimizer")
    return found + (items(attribute(inner, "_variables")) if inner is not None else [])


def lent_values(model: Any) -> dict[int, Any]:
    """The values that a running `fit` has taken out of a model's variables, by `id(variable)`.

    Private API: `_jax_state` of Keras' trainer for JAX, which holds them between two steps while the variables
    hold None. Without it variables are missing from the view until the epoch ends.
    """
    state = dict(pairs(attribute(model, "_jax_state")))
    if not state:
        return {}
    every = layer_variables(model)
    trainable = attribute(model, "_trainable") is not False
    groups = {
        "trainable_variables": [v for v in every if trainable and attribute(v, "_trainable")],
        "non_trainable_variables": [
            v for v in every if not (trainable and attribute(v, "_trainable"))
        ],
        "optimizer_variables": optimizer_variables(attribute(model, "optimizer")),
    }
    found: dict[int, Any] = {}
    for name, variables in groups.items():
        values = items(state.get(name))
        if len(values) == len(variables):
            found |= {id(v): value for v, value in zip(variables, values, strict=True)}
    return found


def suffixes(layer: Any) -> dict[int, str]:
    """The most readable expressions that reach variables of a layer, by `id(variable)`.

    `.layers[0].kernel` where layers are public and the variable is an attribute; a variable that is missing
    is reached by its number.
    """
    found: dict[int, str] = {}
    queue = [("", layer, 0)]
    while queue and len(found) < MOST_VARIABLES:
        path, one, level = queue.pop(0)
        names = _names(one)
        for variable in _own(one):
            name = names.get(id(variable)) or _property_name(one, variable)
            if name is not None:
                found.setdefault(id(variable), path + name)
        for generator in items(attribute(one, "_seed_generators")):
            state = attribute(generator, "state")
            if id(generator) in names:
                found.setdefault(id(state), f"{path}{names[id(generator)]}.state")
        if level < DEEPEST:
            queue += [(path + step, inner, level + 1) for step, inner in _inner(one, names)]
    return found


def _own(layer: Any) -> list[Any]:
    own = ("_trainable_variables", "_non_trainable_variables")
    return [variable for name in own for variable in items(attribute(layer, name))]


def _inner(layer: Any, names: dict[int, str]) -> list[tuple[str, Any]]:
    """The layers of a layer with the step to each: by number in a model, else by attribute."""
    public = _public_layers(layer)
    steps = [(f".layers[{number}]", inner) for number, inner in enumerate(public)]
    met = {id(inner) for _, inner in steps}
    rest = [inner for inner in items(attribute(layer, "_layers")) if id(inner) not in met]
    return steps + [(names[id(inner)], inner) for inner in rest if id(inner) in names]


def _public_layers(layer: Any) -> list[Any]:
    """What the property `layers` of a model answers; nothing for a layer, or where a user's class answers."""
    cls = defining(type(layer), "layers")
    if cls is None or package(cls) != "keras":
        return []
    own = items(attribute(layer, "_layers"))
    if cls.__name__ == "Sequential":
        first = type(own[0]).__name__ if own else ""
        return own[1:] if first == "InputLayer" else own
    if cls.__name__ == "Functional":
        operations = items(attribute(layer, "_operations"))
        return [one for one in operations if is_layer(bases_of(type(one)))]
    return list({id(inner): inner for inner in own}.values())


def _names(layer: Any) -> dict[int, str]:
    """Public attributes by the identity of what they hold, also one level down in lists and dicts."""
    found: dict[int, str] = {}
    for name, value in kept(layer).items():
        if not _is_public(name) or not _gives_what_is_kept(type(layer), name):
            continue
        found.setdefault(id(value), f".{name}")
        for number, one in enumerate(items(value)):
            found.setdefault(id(one), f".{name}[{number}]")
        for key, one in pairs(value):
            if type(key) in (str, int):
                found.setdefault(id(one), f".{name}[{key!r}]")
    return found


def _is_public(name: object) -> bool:
    return (
        type(name) is str
        and not name.startswith("_")
        and name.isidentifier()
        and not keyword.iskeyword(name)
    )


def _gives_what_is_kept(cls: type, name: str) -> bool:
    """Whether no property of the class answers in place of what an instance keeps."""
    owner = defining(cls, name)
    if owner is None:
        return True
    kinds = bases_of(type(class_dict(owner)[name]))
    return not any("__set__" in class_dict(kind) for kind in kinds)


def _property_name(layer: Any, variable: Any) -> str | None:
    """`.kernel` of Keras' own layers, whose property of that name answers `_kernel`.

    Not so where the layer has been quantized or adapted: the property then computes something else.
    """
    name = attribute(variable, "_name")
    if not _is_public(name) or attribute(layer, f"_{name}") is not variable:
        return None
    owner = defining(type(layer), name)
    if owner is None or package(owner) != "keras":
        return None
    changed = attribute(layer, "lora_enabled") or attribute(layer, "quantization_mode")
    return None if changed else f".{name}"


def _answers_as_keras(instance: Any, name: str) -> bool:
    """Whether an attribute is what Keras defines, rather than a user's class."""
    owner = defining(type(instance), name)
    return owner is not None and package(owner) == "keras"


def layer_paths(layer: Any) -> list[str]:
    """The paths of a layer and all layers in it, such as `"sequential/dense"`; for rules on their outputs.

    Private API: `Layer._path`, behind its property `path`.
    """
    found = []
    queue = [(layer, 0)]
    while queue:
        one, level = queue.pop()
        path = attribute(one, "_path")
        found += [path] if isinstance(path, str) else []
        if level < DEEPEST:
            queue += [(inner, level + 1) for inner in items(attribute(one, "_layers"))]
    return list(itertools.islice(found, MOST_VARIABLES))
