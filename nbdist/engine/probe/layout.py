"""One model's layout for who asks: every variable with its rule, axes, spec and bytes."""

from __future__ import annotations

from typing import Any

from nbdist.contract.calls.arrays import ModelFound
from nbdist.engine.probe.look import Look
from nbdist.errors import ArrayError


def layout_of(value: Any, expression: str, look: Look) -> ModelFound:
    """A model, with what it refers to.

    Args:
      value: A Keras model or layer that has variables.
      expression: How it was named.
      look: A look of its own, made and used on the main thread.

    Raises:
      ArrayError: Something else, or one without variables yet.
    """
    if not look.has_layout(value):
        raise ArrayError(
            f"{expression!r} (of type {type(value).__name__}) is no Keras model or layer, and holds no arrays of "
            "which a layout could be shown."
        )
    seen = look.at_model(expression, value)
    if not seen.models:
        raise ArrayError(
            f"{expression!r} has no variables yet. Build it first: give it an Input, call it on a batch, "
            "or run build(input_shape)."
        )
    return ModelFound(model=seen.models[0], meshes=seen.meshes, distributions=seen.distributions)
