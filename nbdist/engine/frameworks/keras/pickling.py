"""Pickles of Keras' objects by their `__dict__`.

Keras' own pickles read the whole values of all processes, and unpickling them makes the variables anew. Making a
variable under a distribution is a collective, in which a new process would wait for ever.
"""

from __future__ import annotations

import copyreg
import importlib
import sys
from collections.abc import Callable
from typing import Any

_made: list[Any] = []
"""Objects that have come from another process, until all objects are there."""

COMPILED = ("train_function", "test_function", "predict_function")
"""Attributes of a model that it compiles again when they are None."""


def reduce(value: Any) -> tuple[Any, ...] | None:
    """Return how to pickle an object of Keras, as `object.__reduce_ex__` does; None for anything else.

    Private API: `KerasSaveable`, the base class of all objects with a pickle of Keras' own, the containers and
    the `Tracker` in which a layer keeps its parts, and `Distribution`. Keras offers no public way to copy an
    object with its variables as they are. If a name is missing, the object is pickled in its own way; an object
    that cannot be pickled is named as left out.
    """
    bases = type(value).__mro__
    if _named("keras.src.saving.keras_saveable", "KerasSaveable") in bases:
        state = {**value.__dict__, **{name: None for name in COMPILED if name in value.__dict__}}
        return *_empty(value), state, None, None, _fill
    if _named("keras.src.distribution.distribution_lib", "Distribution") in bases:
        return *_empty(value), value.__dict__, None, None, _fill
    if _named("keras.src.utils.tracking", "Tracker") in bases:
        return *_empty(value), value.__dict__, None, None, _fill
    if type(value).__module__ == "keras.src.utils.tracking":
        for kind in (list, dict, set):
            if kind in bases:
                return *_empty(value), (kind(value), value.__dict__), None, None, _fill_container
    return None


def finish(process_id: int, processes: int) -> None:
    """Set again the entries of the objects that hold an `id()` of another object, or this process's own number.

    Private API: by `id()` an optimizer finds the place of a variable (`_trainable_variables_indices`), a tracker
    its contents (`stored_ids`), and a functional model its nodes (`_nodes`, of `map_graph`). A distribution keeps
    the number of its process (`_process_id`), and the number of processes (`_num_processes`,
    `_is_multi_process`). An object without these attributes stays as it is.
    """
    made, _made[:] = [*_made], []
    for one in made:
        state = one.__dict__
        if "_trainable_variables_indices" in state:
            places = {id(v): place for place, v in enumerate(state["_trainable_variables"])}
            state["_trainable_variables_indices"] = places
        if "stored_ids" in state:
            state["stored_ids"] = {
                name: set(map(id, store)) for name, (_, store) in state["config"].items()
            }
        if "_nodes" in state and "_nodes_by_depth" in state:
            graph = importlib.import_module("keras.src.ops.function")
            state["_nodes"] = graph.map_graph(state["_inputs"], state["_outputs"])[0]
        if "_process_id" in state and _is_for_all(state):
            state.update(
                _process_id=process_id, _num_processes=processes, _is_multi_process=processes > 1
            )


def _is_for_all(distribution: dict[str, Any]) -> bool:
    """Return whether a distribution, given by its attributes, covers all processes, even if there was only one."""
    if distribution.get("_num_processes", 1) > 1:
        return True
    devices = getattr(distribution.get("_device_mesh"), "devices", None)
    every = sys.modules["keras"].distribution.list_devices()
    return devices is not None and devices.size == len(every)


def _named(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, object())


def _empty(value: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return copyreg.__newobj__, (type(value),)  # type: ignore[attr-defined]


def _fill(one: Any, state: dict[str, Any]) -> None:
    """Set attributes without the class's own `__setattr__`, which would register variables and layers as new."""
    one.__dict__.update(state)
    _made.append(one)


def _fill_container(one: Any, state: tuple[Any, dict[str, Any]]) -> None:
    """Fill a container without the class's own methods, for the same reason as `_fill`."""
    values, attributes = state
    one.__dict__.update(attributes)
    if isinstance(one, list):
        list.extend(one, values)
    elif isinstance(one, dict):
        dict.update(one, values)
    else:
        set.update(one, values)
