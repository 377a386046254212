"""Observer of the devices, meshes and named arrays of this process for reports, and their comparer before a cell.

Imports no framework, starts no back end, runs no collective and reads no device memory. Never reads
`addressable_shards`, which would make further live arrays.

The comparer compares arrays, keys, settings and meshes. They must be equal on all processes: otherwise the
processes' programs differ, or the values that the programs compute.
"""

from __future__ import annotations

import hashlib
import sys
import time
from collections.abc import Iterator
from typing import Any

from nbdist.contract.cells import LocalArray
from nbdist.contract.snapshot import Array, Device, Memory, Mesh
from nbdist.engine import agreement
from nbdist.engine.frameworks.jax.describe import (
    ContextMesh,
    Descriptions,
    Meshes,
    backend,
    device_key,
    mesh_in_context,
    ready,
)
from nbdist.engine.frameworks.jax.objects import PLACES, setting_text
from nbdist.engine.probe.observer import Observer

# Field numbers of github.com/google/pprof/blob/main/proto/profile.proto
_PROFILE_SAMPLE = 2
_PROFILE_STRINGS = 6
_SAMPLE_VALUES = 2
_SAMPLE_LABEL = 3
_LABEL_KEY = 1
_LABEL_STRING = 2
_BYTES = 1  # place in a sample's values, which are (number of buffers, bytes)


def live_bytes(client: Any) -> dict[str, int] | None:
    """Return the bytes of live buffers on each device, every buffer counted once.

    Arrays share buffers: `shard.data` makes an array for each shard, `make_array_from_single_device_arrays`
    one over many. Metadata does not show that; JAX's memory profile counts each buffer once.

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


__all__ = ["JaxObserver", "describe", "devices", "ready"]


class JaxObserver(Descriptions, Observer):
    """Observer of JAX's arrays, devices and meshes; used from one thread.

    Args:
      main_thread: `threading.Thread.ident` of the thread whose mesh in context is reported.
    """

    def __init__(self, main_thread: int) -> None:
        super().__init__(Meshes())
        self._context = ContextMesh(main_thread)
        self._client: Any = None

    def begin(self) -> bool:
        """Start a look; return False while no back end is up."""
        # The client is kept during a look only, so that a back end that is taken down is freed.
        self._client = backend()
        self.walk_again()
        if self._client is None:
            return False
        mesh = self._context.mesh()
        if mesh is not None:
            self.add_mesh(mesh)
        return True

    def context_mesh(self) -> str | None:
        """Return the id of the mesh in context on the main thread; None if there is none."""
        mesh = self._context.mesh()
        return self._meshes.describe(mesh).id if mesh is not None else None

    def devices(self) -> tuple[Device, ...]:
        """Return this process's devices."""
        client, self._client = self._client, None
        return devices(client)

    def note(self) -> None:
        """Note the mesh in context."""
        self._context.note()

    def hook(self) -> None:
        """Note each change of the mesh in context from now on."""
        self._context.hook()

    def unhook(self) -> None:
        """Restore JAX to what it was without hooks."""
        self._context.unhook()


def describe(array: Any) -> tuple[Array, tuple[Mesh, ...]]:
    """Return the description of an array, with an empty path, and its mesh if it has one.

    Args:
      array: A `jax.Array` that holds values; no tracer, not deleted.
    """
    descriptions = Descriptions(Meshes())
    descriptions.add("", array)
    (described,) = descriptions.arrays()
    return described, descriptions.meshes()


def devices(client: Any) -> tuple[Device, ...]:
    """Return this process's devices.

    Args:
      client: The client of the back end. The public `jax.local_devices()` is not used: it would start a back
        end that was taken down a moment ago.
    """
    local = client.local_devices()
    live = live_bytes(client)
    if live is not None and not live.keys() <= {str(device) for device in local}:
        live = None  # the profile names devices in an unknown way: no number is better than a wrong one
    return tuple(
        Device(
            key=device_key(device),
            process_id=device.process_index,
            id=device.id,
            platform=device.platform,
            kind=device.device_kind,
            coords=_coords(device),
            memory=_memory(device),
            live_bytes=live.get(str(device), 0) if live is not None else None,
        )
        for device in local
    )


def _coords(device: Any) -> tuple[int, ...] | None:
    coords = getattr(device, "coords", None)
    return tuple(int(c) for c in coords) if coords is not None else None


def _memory(device: Any) -> Memory | None:
    try:
        stats = device.memory_stats()
    except (RuntimeError, NotImplementedError):
        return None
    if not stats:
        return None

    def of(name: str) -> int | None:
        return int(stats[name]) if name in stats else None

    return Memory(
        bytes_in_use=of("bytes_in_use"),
        peak_bytes_in_use=of("peak_bytes_in_use"),
        bytes_limit=of("bytes_limit"),
    )


MOST_KEYS = 256
MOST_BYTES = 1 << 16
"""Most keys that are read, and most bytes of one array of keys; a larger array is left out."""

READY_SECONDS = 1.0
"""Time limit for all keys together that are still being computed; keys that are late are left out."""


class Keys:
    """Values of the typed PRNG keys found in one check.

    Processes compare them so that their random numbers are equal.

    Attributes:
      found: Text by path, such as `"(0, 7)"`.
    """

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self._key_types: dict[Any, bool] = {}
        self._deadline = time.monotonic() + READY_SECONDS

    def add(self, path: str, array: Any) -> None:
        """Note the value of an array of typed keys; ignore other arrays, and keys in pieces on several processes.

        Copies the values on this process to host memory; runs no collective and no computation.
        """
        dtype = array.dtype
        if dtype not in self._key_types:
            self._key_types[dtype] = is_key_type(dtype)
        if self._key_types[dtype] and len(self.found) < MOST_KEYS:
            data = sys.modules["jax"].random.key_data(array)
            if data.nbytes <= MOST_BYTES and self._is_there(data):
                self.found[path] = _text(data)

    def _is_there(self, data: Any) -> bool:
        if not (data.is_fully_addressable or data.is_fully_replicated):
            return False
        # Copying would wait where no interrupt arrives, and the cell that computes the keys may never end.
        while not data.is_ready():
            if time.monotonic() > self._deadline:
                return False
            time.sleep(0.002)
        return True


def is_key_type(dtype: Any) -> bool:
    """Return whether arrays of a dtype hold typed keys."""
    dtypes = sys.modules["jax"].dtypes
    return bool(dtypes.issubdtype(dtype, dtypes.prng_key))


def _text(data: Any) -> str:
    import numpy

    values = numpy.asarray(data if data.is_fully_addressable else data.addressable_data(0))
    if values.ndim == 1:
        return f"({', '.join(map(str, values.tolist()))})"
    return f"digest {hashlib.sha256(numpy.ascontiguousarray(values)).hexdigest()[:12]}"


OWN_SETTINGS = PLACES | frozenset(
    {
        # Options for what a process logs and shows, which may differ.
        *("jax_logging_level", "jax_debug_log_modules", "jax_log_compiles"),
        *("jax_explain_cache_misses", "jax_log_checkpoint_residuals", "jax_pprint_use_color"),
        *("jax_traceback_filtering", "jax_tracer_error_num_traceback_frames"),
        *("jax_compiler_detailed_logging_min_ops", "jax_distributed_debug"),
        "jax_pallas_verbose_errors",
    }
)
"""Settings of JAX that may differ between processes.

All others are compared, since they change what a program computes.
"""


def settings() -> dict[str, str] | None:
    """Return the settings of `jax.config` on this thread, as text by name; None if JAX is not imported.

    Starts nothing. Values set on this thread alone count too, such as in a `with jax.enable_x64():` that was never
    left.
    """
    config = getattr(sys.modules.get("jax"), "config", None)
    values = getattr(config, "values", None)
    if not isinstance(values, dict):
        return None
    return {name: setting_text(value) for name, value in values.items() if name not in OWN_SETTINGS}


class JaxComparer(Descriptions, agreement.Comparer):
    """Comparer of what JAX has on this process; keeps no array alive."""

    def __init__(self) -> None:
        super().__init__(Meshes())
        self._local: dict[str, LocalArray | None] = {}
        self._keys = Keys()

    def begin(self) -> None:
        """Start to look at the names that a cell reads."""
        self.walk_again()
        self._local, self._keys = {}, Keys()

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """Note an array under a path; return False for a deleted one."""
        if array.is_deleted():
            self._local[path] = None
            return False
        self._keys.add(path, array)
        if not spans_processes(array):
            self._local[path] = LocalArray(dtype=str(array.dtype), shape=tuple(array.shape))
            return True
        return super().add(path, array, lent=lent)

    def found(self) -> agreement.Found:
        """Return the arrays, meshes and keys noted since `begin`."""
        return agreement.Found(
            arrays={one.path: one for one in self.arrays()},
            meshes={one.id: one for one in self.meshes()},
            local=self._local,
            keys=self._keys.found,
        )

    def settings(self) -> dict[str, str] | None:
        """Return the values of `jax.config` as text by name."""
        return settings()

    def mesh(self) -> Mesh | None:
        """Return the mesh in context on the calling thread; None if there is none."""
        mesh = mesh_in_context()
        return self._meshes.describe(mesh) if mesh is not None else None


def spans_processes(array: Any) -> bool:
    """Return whether other processes hold parts of an array, so that all must describe it alike."""
    return not array.is_fully_addressable
