"""The arrays of Keras' models, layers, optimizers and variables, for a save by shard."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdist.engine.frameworks.keras.classes import is_layer, is_optimizer, is_variable
from nbdist.engine.frameworks.keras.variables import (
    Places,
    optimizer_variables,
    path_of,
    raw_value,
    set_raw_value,
)
from nbdist.engine.saving.objects import Suffix


def keeps_its_own(value: Any) -> bool:
    """Return whether this is an object of one of Keras' classes, or of a class derived from one."""
    return any(base.__module__.startswith(("keras.", "tf_keras.")) for base in type(value).__mro__)


def state(value: Any) -> Mapping[str, Any] | None:
    """Return the arrays of a model with its optimizer, a layer, optimizer or variable, by suffix; else None.

    A layer that is made a second time gets other names in Keras, but the suffix of each variable is the same.
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
    found = Places().of(value)
    return {
        place.suffix or f".{path_of(variable)}#{n}": variable
        for n, (place, variable) in enumerate(found)
    }
