"""Tests whether a class is one of Keras', through `sys.modules`: none is while Keras is not imported.

Layers, models and optimizers of `tf_keras`, Keras 2 for TensorFlow, count as well.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable

PACKAGES = ("keras", "tf_keras")

_VARIABLES = (("keras", "Variable"),)
_LAYERS = (("keras", "Layer"), ("tf_keras.layers", "Layer"))
_MODELS = (("keras", "Model"), ("tf_keras", "Model"))
_OPTIMIZERS = (("keras.optimizers", "Optimizer"), ("tf_keras.optimizers", "Optimizer"))


def is_variable(bases: Iterable[type]) -> bool:
    """Return whether a class is `keras.Variable` or derived from it."""
    return _is_one_of(bases, _VARIABLES)


def is_layer(bases: Iterable[type]) -> bool:
    """Return whether a class is a layer; models are layers, too."""
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
