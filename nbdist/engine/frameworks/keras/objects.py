"""What Keras' models and settings are to a new process; their arrays are those of the back end."""

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
"""Of what Keras keeps for a thread: settings, and how many layers there are of each name."""


class Objects:
    """See `nbdist.engine.namespace.objects.Objects`.

    Args:
      process_id: Of this process.
    """

    modules: tuple[str, ...] = ()

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id

    def reduce(self, value: Any) -> Any | None:
        """See `nbdist.engine.frameworks.keras.pickling.reduce`."""
        return pickling.reduce(value)

    def settings(self) -> Any:
        """The distribution that is set, and what Keras keeps beside it; classes that are registered."""
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
        """By no function of Keras' own: those that set a distribution wait for the other processes."""
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
        """None: `settings` has all."""
        return ()

    def unpickling(self) -> AbstractContextManager[object]:
        """See `nbdist.engine.namespace.objects.Objects`."""
        return nullcontext()
