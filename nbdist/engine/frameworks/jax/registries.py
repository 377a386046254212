"""Classes that cells have registered with JAX and Flax, and settings of JAX, on their way to a new process."""

from __future__ import annotations

import contextlib
import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from nbdist.engine.frameworks.jax.settings import PLACES, setting_text
from nbdist.engine.namespace.things import PLAIN, Carried, Fixed, Mine, name_of


class Configuration:
    """`jax.config`, but for devices, addresses and files of one process."""

    def read(self) -> Mapping[str, Any]:
        """See `Things`."""
        values = getattr(sys.modules["jax"].config, "values", {})
        return {
            name: value if type(value) in PLAIN else Fixed(setting_text(value))
            for name, value in values.items()
            if name not in PLACES
        }

    def write(self, name: str, value: Any) -> None:
        """See `Things`."""
        sys.modules["jax"].config.update(name, value)


class Pytrees:
    """Classes of the user's that are pytrees.

    Private API: JAX does not list its pytrees. `jax._src.tree_util._registry` has their functions by class; the
    closures of those of a dataclass, and of those that give keys too, have what they were made of. Without it
    no pytrees are brought.

    Args:
      mine: Tells what the user has written.
    """

    PREFIX = "pytree "

    def __init__(self, mine: Mine) -> None:
        self._mine = mine

    def read(self) -> Mapping[str, Any]:
        """See `Things`."""
        registry = getattr(sys.modules.get("jax._src.tree_util"), "_registry", {})
        return {
            self.PREFIX + name_of(kind): Carried(self._text(kind, entry), (kind, *_how(entry)))
            for kind, entry in list(registry.items())
            if kind in self._mine
        }

    def write(self, name: str, value: Any) -> None:
        """See `Things`."""
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
    """The function of `jax.tree_util` that registers a class as it was, and its arguments behind the class."""
    flatten, unflatten = entry
    inside = inspect.getclosurevars(flatten).nonlocals if inspect.isfunction(flatten) else {}
    if {"data_fields", "meta_fields"} <= inside.keys():
        return "register_dataclass", (list(inside["data_fields"]), list(inside["meta_fields"]))
    if "flatten_with_keys" in inside:
        return "register_pytree_with_keys", (inside["flatten_with_keys"], unflatten)
    return "register_pytree_node", (flatten, unflatten)


class FlaxStates:
    """How Flax saves instances of the user's classes.

    Private API: `flax.serialization._STATE_DICT_REGISTRY` has the functions by class; without it none are brought.

    Args:
      mine: Tells what the user has written.
    """

    PREFIX = "Flax's state of "

    def __init__(self, mine: Mine) -> None:
        self._mine = mine

    def read(self) -> Mapping[str, Any]:
        """See `Things`."""
        registry = getattr(sys.modules.get("flax.serialization"), "_STATE_DICT_REGISTRY", {})
        found: dict[type, tuple[Callable[..., Any], ...]] = dict(registry)
        return {
            self.PREFIX + name_of(kind): Carried(self._mine.text(kind), (kind, *functions))
            for kind, functions in found.items()
            if kind in self._mine
        }

    def write(self, name: str, value: Any) -> None:
        """See `Things`."""
        import flax.serialization

        kind, save, restore = value
        flax.serialization.register_serialization_state(kind, save, restore, override=True)  # type: ignore[no-untyped-call]


@contextlib.contextmanager
def no_early_pytrees() -> Iterator[None]:
    """While it is open, subclasses of `flax.struct.PyTreeNode` are not registered when they are made.

    They are made without their fields, which come later; JAX would have them as pytrees without those for good.
    """
    base: Any = getattr(sys.modules.get("flax.struct"), "PyTreeNode", object)
    before = vars(base).get("__init_subclass__")
    if base is object or before is None:
        yield
        return
    # `Pytrees` registers them when they are whole.
    base.__init_subclass__ = classmethod(lambda cls, **options: None)
    try:
        yield
    finally:
        base.__init_subclass__ = before
