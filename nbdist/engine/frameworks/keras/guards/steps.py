"""Waits for each step of training, so that steps do not run too far ahead of the devices."""

from __future__ import annotations

import functools
from typing import Any

from nbdist.engine.frameworks.keras.guards.arguments import callbacks_in


def run_ahead_too_far(distribution: Any) -> bool:
    """Return whether steps that nobody waits for would end in a deadlock.

    Seen on CPU where a process has several devices (jaxlib 0.10.2, plain JAX without nbdist, two processes of two
    devices): 16 steps with a collective end, 64 never do. With one device in each process 300 end. The likely
    reason: one device may have a limited number of computations in flight, and steps whose collectives need the
    other device use up that number.
    """
    import jax

    devices = distribution.device_mesh.backend_mesh.devices.flat
    own = [device for device in devices if device.process_index == jax.process_index()]
    return len(own) > 1 and own[0].platform == "cpu"


def with_waiting(callbacks: Any) -> Any:
    """Return the argument `callbacks` with one added that makes Keras wait for the results of each step.

    Keras gives the results to callbacks on other threads and goes on, unless a callback has methods for steps.
    """
    if hasattr(callbacks, "callbacks"):
        return callbacks  # a `CallbackList`, which the caller has made
    return [*callbacks_in(callbacks), _waiting()()]


@functools.cache
def _waiting() -> type[Any]:
    import keras

    class WaitsForEachStep(keras.callbacks.Callback):
        """A callback that makes Keras wait: it has methods that Keras calls at each step, and they do nothing."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing; `logs` are numbers by now."""

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            """Do nothing."""

    return WaitsForEachStep
