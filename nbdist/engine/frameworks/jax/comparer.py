"""Comparer of JAX's arrays, keys, settings and meshes, which must be equal on all processes before a cell.

A difference in one of them makes the processes' programs differ, or the values that they compute. Looking starts
no back end and runs no collective.
"""

from __future__ import annotations

import hashlib
import sys
import time
from enum import Enum
from typing import Any

from nbdist.contract.cells import LocalArray
from nbdist.contract.snapshot import Mesh
from nbdist.engine.agreement import facts
from nbdist.engine.frameworks.jax.describe import Descriptions, Meshes, mesh_in_context
from nbdist.engine.frameworks.jax.observe import array_classes, mesh_classes

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


PLACES = frozenset(
    {
        # Devices and addresses of one process.
        *("jax_num_cpu_devices", "jax_cuda_visible_devices", "jax_rocm_visible_devices"),
        *("jax_oneapi_visible_devices", "jax_cross_host_transfer_socket_address"),
        "jax_cross_host_transport_addresses",
        # Files of one host.
        *("jax_compilation_cache_dir", "jax_dump_ir_to", "jax_mtls_ca_file"),
        *("jax_mtls_cert_file", "jax_mtls_key_file"),
    }
)
"""Settings of JAX that belong to one process or its host."""

OWN_SETTINGS = PLACES | frozenset(
    {
        # What one process logs and shows.
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

    Starts nothing. Settings of this thread alone count, such as a `with jax.enable_x64():` that was not left.
    """
    config = getattr(sys.modules.get("jax"), "config", None)
    values = getattr(config, "values", None)
    if not isinstance(values, dict):
        return None
    return {name: setting_text(value) for name, value in values.items() if name not in OWN_SETTINGS}


def setting_text(value: Any) -> str:
    """Return the value of a setting as text without memory addresses.

    A device is named by its platform, since each process has devices of its own.
    """
    if isinstance(value, Enum):
        return value.name
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(setting_text, value))})"
    if isinstance(value, dict):
        return str({str(key): setting_text(one) for key, one in sorted(value.items())})
    platform = getattr(value, "platform", None)
    return f"a {platform} device" if isinstance(platform, str) else f"a {type(value).__name__}"


class JaxComparer(facts.Comparer):
    """Comparer of what JAX has on this process; keeps no array alive."""

    def __init__(self) -> None:
        self._meshes = Meshes()
        self._descriptions = Descriptions(self._meshes)
        self._local: dict[str, LocalArray | None] = {}
        self._keys = Keys()

    def begin(self) -> None:
        """Start to look at the names that a cell reads."""
        self._descriptions.begin()
        self._local, self._keys = {}, Keys()

    def array_classes(self) -> tuple[type, ...]:
        """Return `jax.Array`."""
        return array_classes()

    def mesh_classes(self) -> tuple[type, ...]:
        """Return `jax.sharding.Mesh`."""
        return mesh_classes()

    def add(self, path: str, array: Any) -> bool:
        """Note an array under a path; return False for a deleted one."""
        if array.is_deleted():
            self._local[path] = None
            return False
        self._keys.add(path, array)
        if not spans_processes(array):
            self._local[path] = LocalArray(dtype=str(array.dtype), shape=tuple(array.shape))
            return True
        return self._descriptions.add(path, array)

    def add_mesh(self, mesh: Any) -> None:
        """Note a mesh that was met outside an array."""
        self._descriptions.add_mesh(mesh)

    def found(self) -> facts.Found:
        """Return the arrays, meshes and keys noted since `begin`."""
        return facts.Found(
            arrays={one.path: one for one in self._descriptions.arrays()},
            meshes={one.id: one for one in self._descriptions.meshes()},
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
