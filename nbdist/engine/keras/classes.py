"""Which classes are Keras', found through `sys.modules`: where it has not been imported there are none."""

from __future__ import annotations

import sys
from collections.abc import Iterable


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
