"""Keras' models and settings on the way to a new process; the back end sends their arrays."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from nbdist.engine.frameworks.keras import pickling
from nbdist.engine.frameworks.keras.distribution import global_state, state_of
from nbdist.engine.namespace.things import Mine, Things

STATE = (
    "distribution",
    "dtype_policy",
    "flash_attention",
    "global_seed_generator",
    "global_random_seed",
    "object_name_uids",
)
"""Attributes of Keras' thread-local state: settings, and how many layers there are of each name."""


class Objects:
    """Answers of Keras on one process, for as long as a namespace is on its way."""

    modules: tuple[str, ...] = ()

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id

    def reduce(self, value: Any) -> Any | None:
        """Return how to pickle an object of Keras; None for anything else."""
        return pickling.reduce(value)

    def settings(self) -> Any:
        """Return the distribution that is set, Keras' other settings, and the registered classes."""
        import keras

        state, config = state_of(global_state()), keras.config
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

        pickling.finish(self._process_id, sys.modules["jax"].process_count())
        state = state_of(global_state())
        for name, value in settings["state"].items():
            setattr(state, name, value)
        keras.config.set_floatx(settings["floatx"])
        keras.config.set_epsilon(settings["epsilon"])
        keras.config.set_image_data_format(settings["image_data_format"])
        keras.saving.get_custom_objects().update(settings["custom_objects"])

    def things(self, mine: Mine) -> Sequence[Things]:
        """Return nothing: `settings` has all settings."""
        return ()

    def unpickling(self) -> AbstractContextManager[object]:
        """Return a context that does nothing."""
        return nullcontext()
