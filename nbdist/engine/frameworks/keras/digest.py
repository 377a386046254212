"""Digests of Keras' models, layers and optimizers: their pickles differ, since they hold the time of pickling."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from typing import Any

from nbdist.engine.frameworks.keras.classes import is_layer, is_optimizer
from nbdist.engine.frameworks.keras.variables import (
    layer_variables,
    optimizer_variables,
    path_of,
    unwrapped,
)
from nbdist.engine.probe.classes import bases_of
from nbdist.engine.probe.samples import PLAIN, Seen, glance
from nbdist.engine.values.arrays import OfferedArray, digest


def model_digest(
    value: Any, path: str, offer_array: Callable[[Any, str], OfferedArray | None]
) -> str | None:
    """Return a digest, equal for models of the same variables with equal values; None for any other object.

    Args:
      value: Any object.
      path: The expression that reaches the value, for error texts.
      offer_array: The `offer_array` of the session's framework.

    Raises:
      ArrayError: A variable holds no values.
    """
    variables = _variables(value)
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


def model_glance(value: Any) -> Seen | None:
    """Return a description of a model, layer or optimizer, without its variables' values; None for others."""
    variables = _variables(value)
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
    return Seen(f"variables {texts} attributes {attributes}", whole=not alone, own=alone)


def _variables(value: Any) -> Sequence[Any] | None:
    bases = bases_of(type(value))
    if is_layer(bases):
        return layer_variables(value)
    return optimizer_variables(value) if is_optimizer(bases) else None
