"""Structure of Keras' layers and models, and the most readable expressions that reach their variables.

A layer has its own variables, its seed generators, and the layers in it. `suffixes` finds expressions such as
`.layers[0].kernel`.

A user's model may define properties, `__getattribute__`, `__eq__` or `__hash__`; none of them is run. Attributes
are read from the instance's `__dict__`, and items by the methods of `list`, `tuple` and `dict` themselves. Classes
are looked up in `sys.modules`: before Keras is imported, no object counts as one of Keras. Layers, models and
optimizers of `tf_keras`, Keras 2 for TensorFlow, count as well.
"""

from __future__ import annotations

import keyword
import sys
from collections.abc import Iterable
from typing import Any

from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.private import attribute, live
from nbdist.engine.probe.classes import bases_of, class_dict, dict_items, package

PACKAGES = ("keras", "tf_keras")
"""The packages of Keras 3, and of Keras 2 for TensorFlow."""

_VARIABLES = (("keras", "Variable"),)
_LAYERS = (("keras", "Layer"), ("tf_keras.layers", "Layer"))
_MODELS = (("keras", "Model"), ("tf_keras", "Model"))
_OPTIMIZERS = (("keras.optimizers", "Optimizer"), ("tf_keras.optimizers", "Optimizer"))


def is_variable(bases: Iterable[type]) -> bool:
    """Return whether a class is `keras.Variable` or derived from it."""
    return _is_one_of(bases, _VARIABLES)


def is_layer(bases: Iterable[type]) -> bool:
    """Return whether a class is that of a layer; models are layers."""
    return _is_one_of(bases, _LAYERS)


def is_model(bases: Iterable[type]) -> bool:
    """Return whether a class is a model."""
    return _is_one_of(bases, _MODELS)


def is_optimizer(bases: Iterable[type]) -> bool:
    """Return whether a class is an optimizer."""
    return _is_one_of(bases, _OPTIMIZERS)


def _is_one_of(bases: Iterable[type], names: tuple[tuple[str, str], ...]) -> bool:
    found = [getattr(sys.modules.get(module), name, None) for module, name in names]
    wanted = [one for one in found if one is not None]
    return any(base is one for base in bases for one in wanted)


def kept(instance: Any) -> dict[str, Any]:
    """Return a copy of an instance's `__dict__`; empty if it has none."""
    return dict(pairs(live(instance)))


def defining(cls: type, name: str) -> type | None:
    """Return the class in which objects of `cls` find an attribute; None if no class has it."""
    return next((base for base in bases_of(cls) if name in class_dict(base)), None)


def items(value: Any, limit: int = 4096) -> list[Any]:
    """Return the first `limit` items of a list or tuple; an empty list for anything else.

    A list that is set as an attribute is replaced by TensorFlow with a list of its own class; that list itself is
    empty and keeps the items under `_storage`.
    """
    # The class decides: a proxy's `__class__` only claims to be a list.
    bases = bases_of(type(value))
    if list in bases:
        storage = live(value).get("_storage") if package(type(value)) == "tensorflow" else None
        return list.__getitem__(storage if type(storage) is list else value, slice(limit))
    return list(tuple.__getitem__(value, slice(limit))) if tuple in bases else []


def pairs(value: Any, limit: int = 4096) -> list[tuple[Any, Any]]:
    """Return the first `limit` items of a dictionary; an empty list for anything else."""
    return dict_items(value, limit) if dict in bases_of(type(value)) else []


MOST_VARIABLES = 4096
"""The most variables of one model that are listed."""

DEEPEST = 32
"""The most levels of layers within layers that are searched."""


def own_variables(layer: Any) -> list[Any]:
    """Return the variables of a layer without those of the layers in it."""
    trainable, others = private.TRAINABLE_VARIABLES.of(layer), private.OTHER_VARIABLES.of(layer)
    return [*items(trainable), *items(others)]


def seed_generators(layer: Any) -> list[Any]:
    """Return the seed generators from which a layer draws random numbers; each has a variable `state`."""
    return items(private.SEED_GENERATORS.of(layer))


def inner_layers(layer: Any) -> list[Any]:
    """Return the layers in a layer, in Keras' order."""
    found = []
    for one in items(private.LAYERS.of(layer)):
        # `tf_keras` tracks lists of layers as they are.
        found += [one] if is_layer(bases_of(type(one))) else items(one)
    return [one for one in found if is_layer(bases_of(type(one)))]


def suffixes(layer: Any) -> dict[int, str]:
    """Return the most readable expressions that reach variables of a layer, by `id(variable)`.

    An expression is `.layers[0].kernel` where layers are public and the variable is an attribute. A variable that
    is missing here can still be reached by its number.
    """
    found: dict[int, str] = {}
    queue = [("", layer, 0)]
    while queue and len(found) < MOST_VARIABLES:
        path, one, level = queue.pop(0)
        names = _names(one)
        for variable in own_variables(one):
            name = names.get(id(variable)) or _property_name(one, variable)
            if name is not None:
                found.setdefault(id(variable), path + name)
        for generator in seed_generators(one):
            state = attribute(generator, "state")
            if id(generator) in names:
                found.setdefault(id(state), f"{path}{names[id(generator)]}.state")
        if level < DEEPEST:
            queue += [(path + step, inner, level + 1) for step, inner in _inner(one, names)]
    return found


def _inner(layer: Any, names: dict[int, str]) -> list[tuple[str, Any]]:
    """Return each layer in a layer with the step to it: by number in a model, by attribute in other layers."""
    public = _public_layers(layer)
    steps = [(f".layers[{number}]", inner) for number, inner in enumerate(public)]
    met = {id(inner) for _, inner in steps}
    for inner in inner_layers(layer):
        if id(inner) not in met:
            name = names.get(id(inner)) or _property_of(layer, inner)
            steps += [(name, inner)] if name is not None else []
    return steps


def _property_of(layer: Any, inner: Any) -> str | None:
    """Return `.query_dense` for a layer of Keras whose property of that name returns `_query_dense`, or None."""
    for name, value in kept(layer).items():
        public = name.removeprefix("_") if type(name) is str else None
        if value is inner and _is_public(public) and answers_as_keras(layer, str(public)):
            return f".{public}"
    return None


def _public_layers(layer: Any) -> list[Any]:
    """Return the layers in a model's property `layers`; none for other layers, or if a user's class defines it."""
    cls = defining(type(layer), "layers")
    if cls is None or package(cls) not in PACKAGES:
        return []
    own = inner_layers(layer)
    if cls.__name__ == "Sequential":
        first = type(own[0]).__name__ if own else ""
        return own[1:] if first == "InputLayer" else own
    if cls.__name__ == "Functional":
        operations = items(private.OPERATIONS.of(layer))
        return [one for one in operations if is_layer(bases_of(type(one)))]
    return list({id(inner): inner for inner in own}.values())


def _names(layer: Any) -> dict[int, str]:
    """Return the steps to a layer's public attributes, and to the items of lists and dicts in them, by `id()`."""
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
    """Return whether an attribute is read from the instance itself, not from a property of its class."""
    owner = defining(cls, name)
    if owner is None:
        return True
    kinds = bases_of(type(class_dict(owner)[name]))
    return not any("__set__" in class_dict(kind) for kind in kinds)


def _property_name(layer: Any, variable: Any) -> str | None:
    """Return `.kernel` for a layer of Keras whose property of that name returns `_kernel`, or None.

    The result is None for a layer that has been quantized or adapted: its property computes something else.
    """
    name = str(private.NAME.of(variable))
    if not _is_public(name) or attribute(layer, f"_{name}") is not variable:
        return None
    if not answers_as_keras(layer, name):
        return None
    changed = attribute(layer, "lora_enabled") or attribute(layer, "quantization_mode")
    return None if changed else f".{name}"


def answers_as_keras(instance: Any, name: str) -> bool:
    """Return whether Keras defines an attribute, not a user's class."""
    owner = defining(type(instance), name)
    return owner is not None and package(owner) in PACKAGES


def layer_paths(layer: Any) -> list[str]:
    """Return the paths of a layer and all layers in it, such as `"sequential/dense"`, for rules on outputs."""
    found: list[str] = []
    queue = [(layer, 0)]
    while queue and len(found) < MOST_VARIABLES:
        one, level = queue.pop()
        path = private.PATH.of(one)
        found += [path] if isinstance(path, str) else []
        if level < DEEPEST:
            queue += [(inner, level + 1) for inner in inner_layers(one)]
    return found
