"""Names of devices in texts: the process, and the number of the device among those of its process."""

from __future__ import annotations

from collections.abc import Iterable

from nbdist.contract.snapshot import DeviceKey
from nbdist.notation import ranges_text


class DeviceNames:
    """Names of the devices of a session.

    Devices of a process are numbered from 0 in the order of `jax.local_devices()`, which is that of JAX's ids.
    The ids are no names for people: on CPUs the second process begins at 2048.

    Args:
      keys: The keys of all devices that the processes have reported.
    """

    def __init__(self, keys: Iterable[DeviceKey]) -> None:
        self._numbers: dict[DeviceKey, int] = {}
        counts: dict[str, int] = {}
        for key in sorted(keys, key=_process_and_id):
            process = key.partition(":")[0]
            self._numbers[key] = counts.get(process, 0)
            counts[process] = self._numbers[key] + 1

    def long(self, key: DeviceKey) -> str:
        """Return `process 1 · device 0`; for a device that was not reported, `process 1 · JAX id 2048`."""
        process, jax_id = _process_and_id(key)
        number = self._numbers.get(key)
        return f"process {process} · {f'JAX id {jax_id}' if number is None else f'device {number}'}"

    def short(self, key: DeviceKey) -> str:
        """Return `p1 · d0`, for tables; for a device that was not reported, `p1 · id 2048`."""
        process, jax_id = _process_and_id(key)
        number = self._numbers.get(key)
        return f"p{process} · {f'id {jax_id}' if number is None else f'd{number}'}"

    def numbers(self, keys: Iterable[DeviceKey]) -> str:
        """Return the numbers of devices of one process: `0–3`."""
        return ranges_text(sorted(self._numbers[key] for key in keys))


def _process_and_id(key: DeviceKey) -> tuple[int, int]:
    process, _, jax_id = key.partition(":")
    return int(process), int(jax_id)
