"""The layout of one model, on request: every variable with its rule, axes, spec and bytes."""

from __future__ import annotations

from typing import Any

from nbdist.contract.calls.arrays import ModelFound
from nbdist.engine.probe.look import Look
from nbdist.errors import ArrayError


def layout_of(value: Any, expression: str, look: Look) -> ModelFound:
    """Return the layout of a model, with the meshes and distributions that it refers to.

    Args:
      value: A Keras model or layer that has variables.
      expression: How the user named it.
      look: A look of its own, made and used on the main thread.

    Raises:
      ArrayError: The value is something else, or has no variables yet.
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
