"""Library of classes that hold JAX arrays: Flax's containers and modules, and registered pytrees."""

from __future__ import annotations

import dataclasses
import sys
from typing import Any

from nbdist.engine.frameworks.jax import flax
from nbdist.engine.probe.library import Look
from nbdist.engine.values.parts import Children


class Library:
    """Knowledge of the classes whose objects hold JAX arrays."""

    def look_into(self, bases: tuple[type, ...]) -> Look | None:
        """Return a function that lists what Flax's own containers hold."""
        return flax.look_into(bases)

    def is_model(self, bases: tuple[type, ...]) -> bool:
        """Return False: modules are shown as trees of arrays."""
        return False

    def has_layout(self, bases: tuple[type, ...]) -> bool:
        """Return False: no class of JAX or Flax has layouts to show."""
        return False

    def holds_arrays(self, cls: type, bases: tuple[type, ...]) -> bool:
        """Return whether a class is a pytree or a module of Flax."""
        return is_pytree(cls) or flax.is_module(bases)


def is_pytree(cls: type) -> bool:
    """Return whether a class is registered with `jax.tree_util`.

    Private API: the registry of `jax._src.tree_util`, since the public ways to ask flatten an object,
    which runs its author's code. Without the registry pytrees count as plain objects.
    """
    registry = getattr(sys.modules.get("jax._src.tree_util"), "_registry", None)
    return isinstance(registry, dict) and cls in registry


def children(value: Any) -> Children | None:
    """Return what a container of Flax, or a pytree that is no dataclass, holds on one level; None for others.

    The static part of a pytree is one more child, named `<static>`.
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
