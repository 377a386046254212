"""Waiting for JAX's own collectives between processes in a way that an interrupt can end."""

from __future__ import annotations

from typing import Any


def place() -> bool:
    """Make `process_allgather` wait in JAX for the result of the collective before NumPy converts it.

    NumPy's conversion of a JAX array waits in C++ and passes no signal on to Python, so that a process whose
    peers do not come would never return from it. `sync_global_devices` and `assert_equal` wait there. Each
    `device_put` to devices of several processes calls `assert_equal`; Keras' `assign` between two epochs is one.

    Returns:
      Whether it could be done; a second call changes nothing.

    Private API: the name `np` of `jax.experimental.multihost_utils` (jax 0.10.0 to 0.12.0.1), whose functions
    offer no other place between the collective and the conversion. Without that name such a process is stuck.
    """
    from jax.experimental import multihost_utils

    numpy = getattr(multihost_utils, "np", None)
    if not hasattr(numpy, "asarray"):
        return False
    if not isinstance(numpy, _WaitingNumpy):
        setattr(multihost_utils, "np", _WaitingNumpy(numpy))  # noqa: B010 - to mypy it is a module
    return True


class _WaitingNumpy:
    """A stand-in for NumPy in one module, with its own `asarray`."""

    def __init__(self, numpy: Any) -> None:
        self._numpy = numpy

    def __getattr__(self, name: str) -> Any:
        return getattr(self._numpy, name)

    def asarray(self, value: Any, *arguments: Any, **options: Any) -> Any:
        """Return NumPy's `asarray`, after `block_until_ready` for a JAX array, which an interrupt can end."""
        if hasattr(value, "block_until_ready"):
            value.block_until_ready()
        return self._numpy.asarray(value, *arguments, **options)
