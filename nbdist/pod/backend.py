"""The backend that JAX takes by default in a rehearsal: a pod that is not there."""

from __future__ import annotations

from typing import Any

import jax
from jax.extend.backend import get_backend, register_backend_factory

from nbdist.pod.devices import Devices
from nbdist.pod.private import has_chosen_devices

_FIRST = 1000
"""Higher than the priority of every backend of JAX."""


class DescribedBackend:
    """Answers JAX's questions to a backend for a pod; passes all others on to the compiler's own client.

    That client has devices and no local ones, where a script asks for those of its host.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices.all
        self._client = devices.all[0].client

    def devices(self) -> list[Any]:
        """Return the devices of all hosts."""
        return list(self._devices)

    def local_devices(self) -> list[Any]:
        """Return the devices of the first host; a rehearsal runs as its process."""
        return [device for device in self._devices if device.process_index == 0]

    def device_count(self) -> int:
        """Return the number of devices of all hosts."""
        return len(self._devices)

    def local_device_count(self) -> int:
        """Return the number of devices of the first host."""
        return len(self.local_devices())

    def __getattribute__(self, name: str) -> Any:
        """Hide the class: JAX asks with `isinstance` whether a backend runs programs; this one does not."""
        if name == "__class__":
            return type(object.__getattribute__(self, "_client"))
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiler's client."""
        return getattr(self._client, name)


def make_default(devices: Devices) -> None:
    """Make `jax.devices()` return the devices of the pod.

    Values that JAX computes while it traces, such as those of `jax.ensure_compile_time_eval`, are computed on the
    CPU.
    """
    register_backend_factory(
        "tpu", lambda: DescribedBackend(devices), priority=_FIRST, fail_quietly=False
    )
    jax.config.update("jax_default_device", jax.devices("cpu")[0])


def has_described_backend() -> bool:
    """Return whether this is the process of a rehearsal; starts no backend of JAX."""
    return has_chosen_devices() and type(get_backend()) is DescribedBackend
