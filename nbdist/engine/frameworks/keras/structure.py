"""The parts of a layer: its own variables, its seed generators, and the layers in it."""

from __future__ import annotations

from typing import Any

from nbdist.engine.frameworks.keras.classes import is_layer
from nbdist.engine.frameworks.keras.instance import items, live
from nbdist.engine.probe.classes import bases_of

MOST_VARIABLES = 4096
"""The most variables of one model that are listed."""

DEEPEST = 32
"""The most levels of layers within layers that are searched."""


def own_variables(layer: Any) -> list[Any]:
    """Return the variables of a layer without those of the layers in it.

    Private API: the lists behind Keras' property `variables`, which a user's class may override; `tf_keras`
    has them under other names. If these lists are missing, the result is empty.
    """
    has = live(layer).get
    trainable = has("_trainable_variables", has("_trainable_weights"))
    return [
        *items(trainable),
        *items(has("_non_trainable_variables", has("_non_trainable_weights"))),
    ]


def seed_generators(layer: Any) -> list[Any]:
    """Return the seed generators from which a layer draws random numbers; each has a variable `state`.

    Private API: the list that Keras' property `variables` reads. If this list is missing, their states are not
    shown.
    """
    return items(live(layer).get("_seed_generators"))


def inner_layers(layer: Any) -> list[Any]:
    """Return the layers in a layer, in Keras' order.

    Private API: the list behind the property `layers` of models; other layers have no such property. If the list
    is missing, only a layer's own variables are shown.
    """
    has = live(layer).get
    found = []
    for one in items(has("_layers", has("_self_tracked_trackables"))):
        # `tf_keras` tracks lists of layers as they are.
        found += [one] if is_layer(bases_of(type(one))) else items(one)
    return [one for one in found if is_layer(bases_of(type(one)))]
