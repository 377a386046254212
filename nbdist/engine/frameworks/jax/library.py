"""What holds JAX arrays: Flax's containers and modules, and classes registered as pytrees."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from nbdist.engine.frameworks.jax import flax
from nbdist.engine.probe.library import Look
from nbdist.engine.values.parts import Children


class Library:
    """See `nbdist.engine.probe.library.Library`."""

    def look_into(self, bases: tuple[type, ...]) -> Look | None:
        """How to list what Flax's own containers hold."""
        return flax.look_into(bases)

    def is_model(self, bases: tuple[type, ...]) -> bool:
        """None is: modules are shown as trees of arrays."""
        return False

    def has_layout(self, bases: tuple[type, ...]) -> bool:
        """None has."""
        return False

    def holds_arrays(self, cls: type, bases: tuple[type, ...]) -> bool:
        """Whether it is a pytree, or a module of Flax."""
        return is_pytree(cls) or flax.is_module(bases)


def is_pytree(cls: type) -> bool:
    """Whether a class is registered with `jax.tree_util`.

    Private API: the registry of `jax._src.tree_util`, since the public ways to ask flatten an object,
    which runs what its author wrote. Without it such objects count as plain ones.
    """
    registry = getattr(sys.modules.get("jax._src.tree_util"), "_registry", None)
    return isinstance(registry, dict) and cls in registry


def children(value: Any) -> Children | None:
    """What a container of Flax, or another pytree that is no dataclass, holds on one level; None for others.

    What is static in a pytree counts as well.
    """
    cls = type(value)
    look = flax.look_into(cls.__mro__)
    if look is not None:
        return look(value)
    if dataclasses.is_dataclass(value) or not is_pytree(cls):
        return None
    tree_util = sys.modules["jax"].tree_util
    pairs, definition = tree_util.tree_flatten_with_path(
        value, is_leaf=lambda inner: inner is not value
    )
    _, static = definition.node_data()
    return [*((tree_util.keystr(keys), child) for keys, child in pairs), ("<static>", static)]
