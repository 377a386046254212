"""What models, layers, optimizers and variables of Keras keep, for a save by shard."""

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
    """Whether this is any object of Keras' own classes, or of one derived from them."""
    return any(base.__module__.startswith(("keras.", "tf_keras.")) for base in type(value).__mro__)


def state(value: Any) -> Mapping[str, Any] | None:
    """The arrays of a model with its optimizer, a layer, an optimizer or a variable, by what reaches them.

    A layer that was made twice has other names in Keras, but the same way to each variable.

    Returns:
      None of anything else.
    """
    found = _variables(value)
    if found is None:
        return None
    return {Suffix(suffix): raw_value(variable) for suffix, variable in found.items()}


def set_state(value: Any, state: Mapping[str, Any]) -> None:
    """Has an object keep other arrays of the same shapes and dtypes."""
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
