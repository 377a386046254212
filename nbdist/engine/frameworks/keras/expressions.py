"""Python expressions that reach the variables of a Keras layer or model, the most readable for each."""

from __future__ import annotations

import keyword
from typing import Any

from nbdist.engine.frameworks.keras.classes import PACKAGES, is_layer
from nbdist.engine.frameworks.keras.instance import attribute, defining, items, kept, pairs
from nbdist.engine.frameworks.keras.structure import (
    DEEPEST,
    MOST_VARIABLES,
    inner_layers,
    own_variables,
    seed_generators,
)
from nbdist.engine.probe.classes import bases_of, class_dict, package


def suffixes(layer: Any) -> dict[int, str]:
    """Return the most readable expressions that reach variables of a layer, by `id(variable)`.

    An expression is `.layers[0].kernel` where layers are public and the variable is an attribute. The caller
    reaches a variable that is missing here by its number.
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
    """Return the layers in a layer, each with the step to it: by number in a model, by attribute elsewhere."""
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
        operations = items(attribute(layer, "_operations"))
        return [one for one in operations if is_layer(bases_of(type(one)))]
    return list({id(inner): inner for inner in own}.values())


def _names(layer: Any) -> dict[int, str]:
    """Return the public attributes by the `id()` of their values, and also the items of lists and dicts."""
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
    """Return whether an attribute is read from the instance itself, and not from a property of the class."""
    owner = defining(cls, name)
    if owner is None:
        return True
    kinds = bases_of(type(class_dict(owner)[name]))
    return not any("__set__" in class_dict(kind) for kind in kinds)


def _property_name(layer: Any, variable: Any) -> str | None:
    """Return `.kernel` for a layer of Keras whose property of that name returns `_kernel`, or None.

    The result is None for a layer that has been quantized or adapted: its property computes something else.
    """
    name = str(attribute(variable, "_name"))
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
    """Return the paths of a layer and all layers in it, such as `"sequential/dense"`; for rules on their outputs.

    Private API: `Layer._path`, behind its property `path`. If it is missing, a rule on outputs counts as
    unmatched.
    """
    found: list[str] = []
    queue = [(layer, 0)]
    while queue and len(found) < MOST_VARIABLES:
        one, level = queue.pop()
        path = attribute(one, "_path")
        found += [path] if isinstance(path, str) else []
        if level < DEEPEST:
            queue += [(inner, level + 1) for inner in inner_layers(one)]
    return found
