"""What a layer is made of: its own variables, and the layers in it."""

from __future__ import annotations

from typing import Any

from nbdist.engine.frameworks.keras.classes import is_layer
from nbdist.engine.frameworks.keras.instance import items, live
from nbdist.engine.probe.classes import bases_of

MOST_VARIABLES = 4096
"""Of one model."""

DEEPEST = 32
"""Levels of layers within layers."""


def own_variables(layer: Any) -> list[Any]:
    """The variables of a layer without those of the layers in it.

    Private API: the lists behind Keras' property `variables`, which a user's class may override; `tf_keras`
    has them under other names. Without them a layer has none.
    """
    has = live(layer).get
    trainable = has("_trainable_variables", has("_trainable_weights"))
    return [
        *items(trainable),
        *items(has("_non_trainable_variables", has("_non_trainable_weights"))),
    ]


def seed_generators(layer: Any) -> list[Any]:
    """Those that a layer draws random numbers from; each has a variable `state`.

    Private API: the list that Keras' property `variables` reads. Without it their states are not shown.
    """
    return items(live(layer).get("_seed_generators"))


def inner_layers(layer: Any) -> list[Any]:
    """The layers that a layer has, in Keras' order.

    Private API: the list behind the property `layers` of models; layers have no public one. Without it only a
    layer's own variables are shown.
    """
    has = live(layer).get
    found = []
    for one in items(has("_layers", has("_self_tracked_trackables"))):
        # `tf_keras` tracks lists of layers as they are.
        found += [one] if is_layer(bases_of(type(one))) else items(one)
    return [one for one in found if is_layer(bases_of(type(one)))]
