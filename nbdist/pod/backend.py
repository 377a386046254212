"""A pod that is not there as the backend that JAX takes by default."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.backend import get_backend, register_backend_factory

from nbdist.pod.devices import Devices
from nbdist.pod.private import has_chosen_devices

_FIRST = 1000
"""Above the priority of every backend of JAX."""


class DescribedBackend:
    """What JAX asks a backend for, answered of a pod; all else by the compiler's own client.

    That client has devices and no local ones, where a script asks for those of its host.

    Args:
      devices: Of the pod.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices.all
        self._client = devices.all[0].client

    def devices(self) -> list[Any]:
        """Of all hosts."""
        return list(self._devices)

    def local_devices(self) -> list[Any]:
        """Of the first host, as whose process a rehearsal runs."""
        return [device for device in self._devices if device.process_index == 0]

    def device_count(self) -> int:
        """Of all hosts."""
        return len(self._devices)

    def local_device_count(self) -> int:
        """Of the first host."""
        return len(self.local_devices())

    def __getattribute__(self, name: str) -> Any:
        """JAX asks with `isinstance` whether a backend runs what it compiles: this one does not."""
        if name == "__class__":
            return type(object.__getattribute__(self, "_client"))
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        """What the compiler's client has."""
        return getattr(self._client, name)


def make_default(devices: Devices) -> None:
    """Makes `jax.devices()` those of the pod.

    Values that JAX computes while it traces, such as those of `jax.ensure_compile_time_eval`, are computed on the
    CPU.
    """
    register_backend_factory(
        "tpu", lambda: DescribedBackend(devices), priority=_FIRST, fail_quietly=False
    )
    jax.config.update("jax_default_device", jax.devices("cpu")[0])


def has_described_backend() -> bool:
    """Whether this is the process of a rehearsal; starts no backend of JAX."""
    return has_chosen_devices() and type(get_backend()) is DescribedBackend
