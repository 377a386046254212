"""Keras' objects on their way out of a process: pickled for a new one, compared by digest, saved by shard.

`KerasObjects` sends models and settings to a new process; the back end sends their arrays. `model_digest` and
`model_glance` describe a model, layer or optimizer so that processes can compare it. `state` returns the arrays
that a save by shard writes, and `set_state` sets those that were read.

Keras' own pickles are of no use here. They read the whole values from all processes, and unpickling makes the
variables anew. Making a variable under a distribution is a collective, in which a new process would wait for ever.
So objects are pickled by their `__dict__` (`reduce`).
"""

from __future__ import annotations

import copyreg
import hashlib
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.expressions import (
    is_layer,
    is_optimizer,
    is_variable,
)
from nbdist.engine.frameworks.keras.variables import (
    VariablePlaces,
    layer_variables,
    optimizer_variables,
    path_of,
    raw_value,
    set_raw_value,
    unwrapped,
)
from nbdist.engine.namespace.things import Objects
from nbdist.engine.probe.classes import bases_of
from nbdist.engine.probe.samples import PLAIN, SeenArray, glance
from nbdist.engine.saving.parts import Suffix
from nbdist.engine.values.arrays import OfferedArray, Parts, digest

_made: list[Any] = []
"""The objects that have come from another process, until all objects are there and `finish` completes them."""

COMPILED = ("train_function", "test_function", "predict_function")
"""The attributes of a model that the model compiles again when they are None."""


def reduce(value: Any) -> tuple[Any, ...] | None:
    """Return how to pickle an object of Keras, as `object.__reduce_ex__` does; None for anything else.

    Keras offers no public way to copy an object with its variables as they are.
    """
    bases = type(value).__mro__
    if private.SAVEABLE.get() in bases:
        state = {**value.__dict__, **{name: None for name in COMPILED if name in value.__dict__}}
        return *_empty(value), state, None, None, _fill
    if private.DISTRIBUTION.get() in bases or private.PARTS.get() in bases:
        return *_empty(value), value.__dict__, None, None, _fill
    if private.is_part(value):
        for kind in (list, dict, set):
            if kind in bases:
                return *_empty(value), (kind(value), value.__dict__), None, None, _fill_container
    return None


def finish(process_id: int, processes: int) -> None:
    """Set again the entries of the objects that hold an `id()` of another object, or this process's own number."""
    made, _made[:] = [*_made], []
    for one in made:
        private.renew(one.__dict__, process_id, processes)


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


STATE = (
    "distribution",
    "dtype_policy",
    "flash_attention",
    "global_seed_generator",
    "global_random_seed",
    "object_name_uids",
)
"""The attributes of Keras' thread-local state: settings, and how many layers of each name there are."""


class KerasObjects(Objects):
    """Keras' objects and settings on one process, for the transfer of a namespace to a new process."""

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle an object of Keras; None for anything else."""
        return reduce(value)

    def settings(self) -> Any:
        """Return the distribution that is set, Keras' other settings, and the registered classes."""
        import keras

        state, config = private.imported_tracker(), keras.config
        return {
            "state": {name: getattr(state, name) for name in STATE if hasattr(state, name)},
            "floatx": config.floatx(),
            "epsilon": config.epsilon(),
            "image_data_format": config.image_data_format(),
            "custom_objects": dict(keras.saving.get_custom_objects()),
        }

    def set(self, settings: Any) -> None:
        """Set the settings; the distribution directly, since Keras' functions for it wait for other processes."""
        import keras

        finish(self._process_id, sys.modules["jax"].process_count())
        state = private.imported_tracker()
        for name, value in settings["state"].items():
            setattr(state, name, value)
        keras.config.set_floatx(settings["floatx"])
        keras.config.set_epsilon(settings["epsilon"])
        keras.config.set_image_data_format(settings["image_data_format"])
        keras.saving.get_custom_objects().update(settings["custom_objects"])


def model_digest(
    value: Any, path: str, offer_array: Callable[[Any, str], OfferedArray | None]
) -> str | None:
    """Return a digest, equal for models of the same variables with equal values; None for any other object.

    Layers and optimizers have one, too. Pickles of equal models differ, since a pickle holds the time of pickling.
    For a variable that spans processes, the digest covers dtype, shape and sharding, not the values.

    Args:
      value: Any object.
      path: The expression that reaches the value, for error texts.
      offer_array: The `offer_array` of the session's framework.

    Raises:
      ArrayError: A variable holds no values.
    """
    variables = _all_variables(value)
    if variables is None:
        return None
    found = hashlib.sha1(usedforsecurity=False)
    for variable in variables:
        offered = offer_array(variable, path)
        found.update(f"{path_of(variable)}\0".encode())
        if offered is not None:
            found.update(f"{offered.dtype} {offered.shape} {offered.sharding}\0".encode())
        if offered is not None and offered.sharding is None:
            found.update(digest(offered.pieces[0].read()).encode())
    return found.hexdigest()


def model_glance(value: Any) -> SeenArray | None:
    """Return a description of a model, layer or optimizer, without its variables' values; None for others."""
    variables = _all_variables(value)
    if variables is None:
        return None
    arrays = [unwrapped(variable) for variable in variables]
    seen = [glance(array) for array in arrays]
    # A random state on several processes belongs to all of them: Keras draws the same numbers on each.
    alone = any(getattr(array, "is_fully_addressable", True) for array in arrays)
    texts = [
        (path_of(variable), one and one.text) for variable, one in zip(variables, seen, strict=True)
    ]
    attributes = {name: one for name, one in vars(value).items() if type(one) in PLAIN}
    return SeenArray(f"variables {texts} attributes {attributes}", whole=not alone, own=alone)


class KerasParts(Parts):
    """Parts of values of Keras: a variable is its array; models are compared as a whole."""

    unwrapped = staticmethod(unwrapped)
    array_of = staticmethod(unwrapped)
    model_digest = staticmethod(model_digest)


def _all_variables(value: Any) -> Sequence[Any] | None:
    bases = bases_of(type(value))
    if is_layer(bases):
        return layer_variables(value)
    return optimizer_variables(value) if is_optimizer(bases) else None


title = "Keras"


def keeps_its_own(value: Any) -> bool:
    """Return whether this is an object of one of Keras' classes, or of a class derived from one."""
    return any(base.__module__.startswith(("keras.", "tf_keras.")) for base in type(value).__mro__)


def state(value: Any) -> Mapping[str, Any] | None:
    """Return the arrays of a layer, optimizer, variable, or model with its optimizer, by suffix; else None.

    Suffixes identify the arrays: a layer that is made a second time gets other names in Keras, but the same
    suffixes.
    """
    found = _variables(value)
    if found is None:
        return None
    return {Suffix(suffix): raw_value(variable) for suffix, variable in found.items()}


def set_state(value: Any, state: Mapping[str, Any]) -> None:
    """Set the arrays of an object to others of the same shapes and dtypes."""
    for suffix, variable in (_variables(value) or {}).items():
        set_raw_value(variable, state[suffix])


def _variables(value: Any) -> dict[str, Any] | None:
    bases = type(value).__mro__
    if is_variable(bases):
        return {".value": value}
    if is_optimizer(bases):
        return {f".variables[{n}]": one for n, one in enumerate(optimizer_variables(value))}
    if not is_layer(bases):
        return None
    found = VariablePlaces().of(value)
    return {
        place.suffix or f".{path_of(variable)}#{n}": variable
        for n, (place, variable) in enumerate(found)
    }
