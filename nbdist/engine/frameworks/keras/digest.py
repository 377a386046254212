"""Keras' models, layers and optimizers among values: their pickles hold the time at which they were made."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from nbdist.engine.frameworks.keras.classes import is_layer, is_optimizer
from nbdist.engine.frameworks.keras.variables import layer_variables, optimizer_variables, path_of
from nbdist.engine.probe.classes import bases_of
from nbdist.engine.values.arrays import OfferedArray, digest


def model_digest(
    value: Any, path: str, offer_array: Callable[[Any, str], OfferedArray | None]
) -> str | None:
    """Equal for models of the same variables with equal values; None for what is none of Keras.

    Args:
      value: Any object.
      path: How it is reached, for error texts.
      offer_array: The framework's.

    Raises:
      ArrayError: A variable holds no values.
    """
    bases = bases_of(type(value))
    if is_layer(bases):
        variables = layer_variables(value)
    elif is_optimizer(bases):
        variables = optimizer_variables(value)
    else:
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
