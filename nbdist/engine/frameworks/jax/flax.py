"""Contents of Flax's containers and modules, read without importing Flax or running code that users wrote.

Flax is found through `sys.modules`; where it has not been imported there is nothing to find.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from typing import Any

from nbdist.engine.probe.library import Look


def look_into(bases: tuple[type, ...]) -> Look | None:
    """Return a function that lists what a container of Flax holds; None for a class that is none of them.

    Args:
      bases: The class and its bases, in order of resolution.
    """
    nnx = sys.modules.get("flax.nnx")
    for name, look in (("Variable", _variable), ("State", _state), ("List", _list)):
        if _is_one_of(bases, getattr(nnx, name, None)):
            return look
    if _is_one_of(bases, getattr(sys.modules.get("flax.core"), "FrozenDict", None)):
        return _frozen_dict
    return None


def is_module(bases: tuple[type, ...]) -> bool:
    """Return whether a class is an NNX module or another NNX object that holds arrays in attributes."""
    return _is_one_of(bases, getattr(sys.modules.get("flax.nnx"), "Pytree", None))


def unwrapped(value: Any) -> Any:
    """Return the array that an NNX Variable holds; anything else as it is."""
    if not _is_one_of(type(value).__mro__, getattr(sys.modules.get("flax.nnx"), "Variable", None)):
        return value
    return next((held for rest, held in _variable(value) if not rest), value)


def state_of_module(value: object) -> Any | None:
    """Return the state of an NNX module, since the notebook need not have the module's class; None for others."""
    nnx = sys.modules.get("flax.nnx")
    module = getattr(nnx, "Module", None)
    if nnx is None or module is None or not isinstance(value, module):
        return None
    return state(value)


def state(value: Any) -> Any:
    """Return the state of an NNX object, as a pytree."""
    return sys.modules["flax.nnx"].state(value)


def set_state(value: Any, state: Any) -> None:
    """Give an NNX object the arrays of a state that `state` has returned."""
    sys.modules["flax.nnx"].update(value, state)


def _is_one_of(bases: tuple[type, ...], wanted: object) -> bool:
    return wanted is not None and any(base is wanted for base in bases)


def _variable(variable: Any) -> Iterable[tuple[str, Any]]:
    # Called through the class: a Variable looks up unknown attributes in its value.
    get = getattr(sys.modules["flax.nnx"].Variable, "get_raw_value", None)
    if get is None:  # before flax 0.12
        return []
    value = get(variable)
    jax = sys.modules.get("jax")
    # A Variable with an array is used like the array, also in Flax's own calls, without `[...]` or `.value`.
    whole = jax is not None and any(base is jax.Array for base in type(value).__mro__)
    return [("" if whole else ".get_value()", value)]


def _state(state: Any) -> Iterable[tuple[str, Any]]:
    mapping = getattr(sys.modules["flax.nnx"].State, "raw_mapping", None)
    return _items(mapping.fget(state)) if mapping is not None else []


def _list(items: Any) -> Iterable[tuple[str, Any]]:
    # NNX keeps the items of a List as attributes '0', '1', and so on.
    return [(f"[{name}]", value) for name, value in list(vars(items).items()) if name.isdecimal()]


def _frozen_dict(frozen: Any) -> Iterable[tuple[str, Any]]:
    """Return the items of a Linen `FrozenDict`.

    Private API: the slot `_dict`; the public ways copy the whole tree or call `__getitem__` for each key.
    Without the slot nothing is found.
    """
    slot = getattr(sys.modules["flax.core"].FrozenDict, "_dict", None)
    return _items(slot.__get__(frozen)) if slot is not None else []


def _items(mapping: dict[Any, Any]) -> Iterable[tuple[str, Any]]:
    return [
        (f"[{key!r}]", value) for key, value in list(dict.items(mapping)) if type(key) in (str, int)
    ]
