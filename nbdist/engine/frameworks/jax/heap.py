"""Bytes of live buffers on each device, every buffer counted once.

Arrays share buffers: `shard.data` makes an array for each shard, `make_array_from_single_device_arrays`
one over many. Metadata does not show that; JAX's memory profile counts each buffer once.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

# Field numbers of github.com/google/pprof/blob/main/proto/profile.proto
_PROFILE_SAMPLE = 2
_PROFILE_STRINGS = 6
_SAMPLE_VALUES = 2
_SAMPLE_LABEL = 3
_LABEL_KEY = 1
_LABEL_STRING = 2
_BYTES = 1  # place in a sample's values, which are (number of buffers, bytes)


def live_bytes(client: Any) -> dict[str, int] | None:
    """Return the bytes of live buffers on each device.

    Args:
      client: A back end's client.

    Returns:
      Bytes by `str(device)`, without devices that hold nothing; None if the back end keeps no such profile.
      Reads no device memory; takes about 1 ms for 4,000 buffers.

    Source: `Client.heap_profile()`, which `jax.profiler.device_memory_profile()` compresses.
    """
    try:
        profile = client.heap_profile()
    except (AttributeError, RuntimeError, NotImplementedError):
        return None
    return bytes_by_device(profile)


def bytes_by_device(profile: bytes) -> dict[str, int]:
    """Return the sums of the samples of a profile that are labelled as buffers, by device."""
    strings: list[bytes] = []
    samples: list[bytes] = []
    for number, value in _fields(profile):
        if number == _PROFILE_STRINGS:
            strings.append(value)
        elif number == _PROFILE_SAMPLE:
            samples.append(value)
    totals: dict[str, int] = {}
    for sample in samples:
        values: list[int] = []
        labels: dict[bytes, bytes] = {}
        for number, value in _fields(sample):
            if number == _SAMPLE_VALUES:
                values += _numbers(value)
            elif number == _SAMPLE_LABEL:
                label = dict(_fields(value))
                labels[strings[label[_LABEL_KEY]]] = strings[label.get(_LABEL_STRING, 0)]
        if labels.get(b"kind") == b"buffer":
            device = labels[b"device"].decode()
            totals[device] = totals.get(device, 0) + values[_BYTES]
    return totals


def _fields(message: bytes) -> Iterator[tuple[int, Any]]:
    """Yield the field numbers and values of a protocol buffer: an int for a varint, else the bytes.

    Raises:
      ValueError: A wire type that pprof does not use.
    """
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        number, wire_type = tag >> 3, tag & 7
        value, at = _varint(message, at)
        if wire_type == 0:
            yield number, value
        elif wire_type == 2:
            yield number, message[at : at + value]
            at += value
        else:
            raise ValueError(f"wire type {wire_type} in a memory profile; 0 and 2 are known")


def _numbers(value: int | bytes) -> list[int]:
    """Return the values of a repeated integer, packed or not."""
    if isinstance(value, int):
        return [value]
    numbers, at = [], 0
    while at < len(value):
        number, at = _varint(value, at)
        numbers.append(number)
    return numbers


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """Return a varint and the place after it."""
    number = shift = 0
    while True:
        byte = message[at]
        at += 1
        number |= (byte & 127) << shift
        if byte < 128:
            return number, at
        shift += 7
