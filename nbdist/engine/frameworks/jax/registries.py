"""Registries on their way to a new process: the user's classes in JAX and Flax, and JAX's configuration."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nbdist.engine.frameworks.jax.settings import PLACES, setting_text
from nbdist.engine.namespace.things import PLAIN, Carried, Fixed, Mine, name_of


class Configuration:
    """The options of `jax.config`, except devices, addresses and files of one process."""

    def read(self) -> Mapping[str, Any]:
        """Return the values of the options by name; a value that is not plain only as text."""
        values = getattr(sys.modules["jax"].config, "values", {})
        return {
            name: value if type(value) in PLAIN else Fixed(setting_text(value))
            for name, value in values.items()
            if name not in PLACES
        }

    def write(self, name: str, value: Any) -> None:
        """Set one option of `jax.config`."""
        sys.modules["jax"].config.update(name, value)


class Pytrees:
    """The user's classes that are registered as pytrees.

    Private API: JAX does not list its pytrees. `jax._src.tree_util._registry` has their functions by class. For a
    dataclass, and for a class registered with keys, the closure of the flatten function has the arguments of the
    registration. Without the registry no pytrees are brought.

    Args:
      mine: Tells which classes the user has written.
    """

    PREFIX = "pytree "

    def __init__(self, mine: Mine) -> None:
        self._mine = mine

    def read(self) -> Mapping[str, Any]:
        """Return the user's pytree classes by name, each with how it was registered."""
        registry = getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})
        return {
            self.PREFIX + name_of(kind): Carried(self._text(kind, entry), (kind, *_how(entry)))
            for kind, entry in list(registry.items())
            if kind in self._mine
        }

    def write(self, name: str, value: Any) -> None:
        """Register one class as a pytree, unless it is registered."""
        kind, how, arguments = value
        registry = getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})
        if kind not in registry:
            getattr(sys.modules["jax"].tree_util, how)(kind, *arguments)

    def _text(self, kind: type, entry: Any) -> str:
        how, arguments = _how(entry)
        return (
            f"{self._mine.text(kind)} {how} {[name_of(a) if callable(a) else a for a in arguments]}"
        )


def _how(entry: Any) -> tuple[str, tuple[Any, ...]]:
    """Return the function of `jax.tree_util` that registered a class, and its arguments after the class."""
    flatten, unflatten = entry
    inside = inspect.getclosurevars(flatten).nonlocals if inspect.isfunction(flatten) else {}
    if {"data_fields", "meta_fields"} <= inside.keys():
        return "register_dataclass", (list(inside["data_fields"]), list(inside["meta_fields"]))
    if "flatten_with_keys" in inside:
        return "register_pytree_with_keys", (inside["flatten_with_keys"], unflatten)
    return "register_pytree_node", (flatten, unflatten)


class FlaxStates:
    """The functions with which Flax saves and restores instances of the user's classes.

    Private API: `flax.serialization._STATE_DICT_REGISTRY` has the functions by class; without it none are brought.

    Args:
      mine: Tells which classes the user has written.
    """

    PREFIX = "Flax's state of "

    def __init__(self, mine: Mine) -> None:
        self._mine = mine

    def read(self) -> Mapping[str, Any]:
        """Return the user's classes by name, each with its functions."""
        registry = getattr(sys.modules.get("flax.serialization"), "_STATE_DICT_REGISTRY", {})
        found: dict[type, tuple[Callable[..., Any], ...]] = dict(registry)
        return {
            self.PREFIX + name_of(kind): Carried(self._mine.text(kind), (kind, *functions))
            for kind, functions in found.items()
            if kind in self._mine
        }

    def write(self, name: str, value: Any) -> None:
        """Register the functions of one class with Flax."""
        import flax.serialization

        kind, save, restore = value
        flax.serialization.register_serialization_state(kind, save, restore, override=True)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def no_early_pytrees() -> Iterator[None]:
    """Keep subclasses of `flax.struct.PyTreeNode` from being registered as they are made, within the context.

    Unpickling makes a class first and its fields later; JAX would know it as a pytree without fields for good.
    """
    base: Any = getattr(sys.modules.get("flax.struct"), "PyTreeNode", object)
    before = vars(base).get("__init_subclass__")
    if base is object or before is None:
        yield
        return
    # `Pytrees` registers the classes when they are complete.
    base.__init_subclass__ = classmethod(lambda cls, **options: None)
    try:
        yield
    finally:
        base.__init_subclass__ = before
