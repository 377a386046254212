"""Steps of training that do not run too far ahead of the devices."""

from __future__ import annotations

import functools
from typing import Any

from nbdist.engine.frameworks.keras.guards.arguments import callbacks_in


def run_ahead_too_far(distribution: Any) -> bool:
    """Whether steps that nobody waits for would end in a deadlock.

    Seen on CPU where a process has several devices (jaxlib 0.10.2, plain JAX without nbdist, two processes of two
    devices): 16 steps with a collective end, 64 never do; with one device each 300 end. It looks as if the
    computations one device may have in flight were used up by steps whose collectives need the other's.
    """
    import jax

    devices = distribution.device_mesh.backend_mesh.devices.flat
    own = [device for device in devices if device.process_index == jax.process_index()]
    return len(own) > 1 and own[0].platform == "cpu"


def with_waiting(callbacks: Any) -> Any:
    """The argument `callbacks`, and one with which Keras waits for the results of each step.

    Keras hands them to callbacks on other threads and goes on, unless a callback objects.
    """
    if hasattr(callbacks, "callbacks"):
        return callbacks  # a `CallbackList`, which the caller has made
    return [*callbacks_in(callbacks), _waiting()()]


@functools.cache
def _waiting() -> type[Any]:
    import keras

    class WaitsForEachStep(keras.callbacks.Callback):
        """Objects, by having methods that are called at each step; they need do nothing."""

        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            """Keras' hook; `logs` are numbers by now."""

        def on_test_batch_end(self, batch: int, logs: Any = None) -> None:
            """Keras' hook."""

        def on_predict_batch_end(self, batch: int, logs: Any = None) -> None:
            """Keras' hook."""

    return WaitsForEachStep
