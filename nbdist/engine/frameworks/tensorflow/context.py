"""TensorFlow's eager context: tests whether it has started, aborts its collectives, and resets it in place."""

from __future__ import annotations

import sys
from typing import Any

from nbdist.spelling import command

UNAVAILABLE = 14
"""The code of `tf.errors.UnavailableError`."""


def started() -> bool:
    """Return whether TensorFlow has its devices; never start it.

    Private API: `tensorflow.python.eager.context._context` and its `_context_handle` (TensorFlow 2.21); the public
    functions would start the context. If they are missing, the answer is False, and reports show no TensorFlow.
    """
    module = sys.modules.get("tensorflow.python.eager.context")
    found = getattr(module, "_context", None)
    return getattr(found, "_context_handle", None) is not None


def abort_collectives(message: str) -> bool:
    """Make all collectives that run raise `tf.errors.UnavailableError`, from any thread.

    Later collectives fail until `reset_context`.

    Private API: `context().abort_collective_ops(code, message)` (TensorFlow 2.21), with which TensorFlow's own
    strategies react to a lost worker. If it is missing, a worker stays blocked until its peers come or end.

    Returns:
      Whether the collectives were aborted.
    """
    if not started():
        # The call would wait for the start, in which the main thread may be blocked.
        return False
    context = sys.modules["tensorflow.python.eager.context"].context()
    abort = getattr(context, "abort_collective_ops", None)
    if abort is None:
        return False
    abort(UNAVAILABLE, message)
    return True


def reset_context() -> None:
    """Forget the cluster, so that a strategy can be made for another one; call this on the main thread.

    Visible devices and logical devices stay as they were. Objects of the old context (variables, models, datasets,
    strategies) cannot be used any more; Keras' session is cleared. The reset takes less than 0.1 s; the new
    strategy connects in about 1 s.

    Private API: `tensorflow.python.eager.context._reset_context` (TensorFlow 2.21), "only for testing".

    Raises:
      RuntimeError: That function is missing; only new processes help.
    """
    import tensorflow as tf
    from tensorflow.python.eager import context

    reset = getattr(context, "_reset_context", None)
    if reset is None:
        raise RuntimeError(
            f"TensorFlow {tf.__version__} cannot start again in the same process: run "
            f"{command('restart')} for new processes."
        )
    _clear_keras()
    devices = _settled_devices(tf)
    reset()
    for visible, kind in devices["visible"]:
        tf.config.set_visible_devices(visible, kind)
    for device, logical in devices["logical"]:
        tf.config.set_logical_device_configuration(device, logical)


def _settled_devices(tf: Any) -> dict[str, Any]:
    kinds = {device.device_type for device in tf.config.list_physical_devices()}
    logical = [
        (device, tf.config.get_logical_device_configuration(device))
        for device in tf.config.list_physical_devices()
    ]
    return {
        "visible": [(tf.config.get_visible_devices(kind), kind) for kind in sorted(kinds)],
        "logical": [(device, settled) for device, settled in logical if settled],
    }


def _clear_keras() -> None:
    """Clear Keras' session: its names and generators hold variables of the old context."""
    for name in ("keras", "tf_keras"):
        keras = sys.modules.get(name)
        backend = getattr(keras, "backend", None)
        if backend is not None and backend.backend() == "tensorflow":
            backend.clear_session()
