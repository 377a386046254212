"""Cache of compiled programs of this user's processes, kept by content in a private folder.

JAX's own cache does not serve: it keeps executables, which nothing can load for devices that are not there
(`PjRtCompiler must be constructed with a Client to call DeserializeLoadedExecutable`). This cache keeps the facts
that were read from them, and how arrays lie on the pod, as plain data that another process with the same pod can
read.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.metadata
import json
import os
import re
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import nbdist.contract.program
import nbdist.contract.snapshot
import nbdist.program
from nbdist.contract import snapshot
from nbdist.contract.program import MeshAxes, Program
from nbdist.contract.wire import decode, encode
from nbdist.errors import WireError
from nbdist.program.compiled import mesh_axes
from nbdist.rehearsal.devices import Devices, compiled_for
from nbdist.rehearsal.libtpu import user_cache
from nbdist.version import __version__
from nbdist.view.program import MESH


@dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """A sharding over the pod's devices as plain data.

    Attributes:
      sharding: The sharding, over `mesh` or on one device; its spec has the dimensions that somebody gave.
      mesh: The mesh; None on one device.
      types: Names of the types of the mesh's axes.
    """

    sharding: snapshot.Sharding
    mesh: MeshAxes | None = None
    types: tuple[str, ...] = ()


def laid(sharding: Any) -> Laid | None:
    """Return a sharding as plain data; None where it is missing, or neither over a mesh nor on one device."""
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        if not isinstance(mesh, Mesh):
            return None  # an abstract one, which has no devices
        # Since JAX 0.10.2 the entries have a name, and a spec with unreduced axes refuses to be iterated itself.
        entries = getattr(sharding.spec, "partitions", sharding.spec)
        plain = snapshot.NamedSharding(
            mesh=MESH,
            spec=tuple(map(_axes, entries)),
            unreduced=tuple(sorted(getattr(sharding.spec, "unreduced", ()))),
            memory_kind=sharding.memory_kind,
        )
        types = tuple(one.name for one in mesh.axis_types)
        return Laid(sharding=plain, mesh=mesh_axes(mesh), types=types)
    if sharding is None or len(sharding.device_set) > 1:
        return None
    (device,) = sharding.device_set
    return Laid(
        sharding=snapshot.SingleDevice(device=device_key(device), memory_kind=sharding.memory_kind)
    )


def sharding_of(plain: Laid, devices: Devices) -> Any:
    """Return the sharding that plain data describes, which has no entry that leaves a dimension to the compiler.

    Raises:
      KeyError: A device is none of the pod's.
    """
    if plain.mesh is None or not isinstance(plain.sharding, snapshot.NamedSharding):
        assert isinstance(plain.sharding, snapshot.SingleDevice)
        number = int(plain.sharding.device.partition(":")[2])
        return SingleDeviceSharding(devices.by_id[number], memory_kind=plain.sharding.memory_kind)
    placed = np.array([devices.by_id[number] for number in plain.mesh.devices], dtype=object)
    types = tuple(AxisType[one] for one in plain.types)
    mesh = Mesh(placed.reshape(plain.mesh.shape), plain.mesh.names, axis_types=types)
    entries = [one[0] if len(one) == 1 else one or None for one in plain.sharding.spec]
    return NamedSharding(mesh, PartitionSpec(*entries), memory_kind=plain.sharding.memory_kind)


def device_key(device: Any) -> snapshot.DeviceKey:
    """Return the key of one of JAX's devices in a snapshot."""
    return f"{device.process_index}:{device.id}"


def _axes(entry: Any) -> tuple[str, ...]:
    if isinstance(entry, str):
        return (entry,)
    return tuple(map(str, entry)) if isinstance(entry, tuple) else ()


MOST_BYTES = 128 * 1024**2
"""Limit for all files together; the least recently used file goes first."""

VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables by which a person changes how the compiler works."""

READ_WITH = (
    *sorted(Path(nbdist.program.__file__).parent.glob("*.py")),
    Path(nbdist.contract.program.__file__),
    Path(nbdist.contract.snapshot.__file__),
    Path(__file__),
)
"""The files with the code that reads a program, and with the format of a cache entry."""

_CELL = re.compile(r"[^\"\s]*[/\\]ipykernel_\d+[/\\]\d+\.py")
"""Pattern of a cell's file: the name differs in each process, and with the options of %%dist_rehearse."""


@dataclass(frozen=True, slots=True)
class CachedProgram:
    """An entry of the cache: the facts of one compiled program.

    Attributes:
      program: None for a single operation, which is not a program of the user's.
      out_shardings: One for each result; None where the program does not fit.
      arguments: How each argument lies; None for one that the program does not use or that has another layout.
        Empty where JAX says too little.
    """

    program: Program | None
    out_shardings: tuple[Any, ...] | None
    arguments: tuple[Laid | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    program: Program | None
    out_shardings: tuple[Laid, ...] | None
    arguments: tuple[Laid | None, ...]


class ProgramCache:
    """The cache for the devices of one pod. Without a usable folder, everything is compiled.

    Args:
      devices: The pod's devices.
      folder: Default: one in the user's cache.
    """

    def __init__(self, devices: Devices, folder: Path | None = None) -> None:
        self._devices = devices
        self.folder = folder if folder is not None else user_cache() / "programs"

    def key(self, lowered: Any) -> str:
        """Return a key: equal where the compiler would do the same and the program would name the same lines.

        Args:
          lowered: A `jax.stages.Lowered`.
        """
        topology = self._devices.topology
        parts = (
            _versions(),
            _reader(),
            self._devices.all[0].client.platform_version,
            topology.name,
            topology.slices,
            [(name, os.environ.get(name)) for name in VARIABLES],
            _settings(),
            compiled_for(lowered),
        )
        # With the files and lines, which a program names.
        text = _CELL.sub("ipykernel_0/0.py", lowered.as_text(debug_info=True))
        return hashlib.sha256(f"{parts!r}\n{text}".encode()).hexdigest()

    def get(self, key: str) -> CachedProgram | None:
        """Return the entry, or None; a file that cannot be read counts as missing."""
        path = self._path(key)
        try:
            data = json.loads(gzip.decompress(path.read_bytes()))
            found = decode(_File, data)
            shardings = found.out_shardings
            if shardings is not None:
                shardings = tuple(sharding_of(one, self._devices) for one in shardings)
            kept = CachedProgram(found.program, shardings, found.arguments)
            os.utime(path)
        except (OSError, EOFError, ValueError, KeyError, WireError):
            return None
        return kept

    def put(self, key: str, kept: CachedProgram) -> None:
        """Keep an entry, if possible: if the shardings of its results can be made again from plain data."""
        plain: list[Laid] | None = None if kept.out_shardings is None else []
        for sharding in kept.out_shardings or ():
            one = laid(sharding)
            if plain is None or one is None or sharding_of(one, self._devices) != sharding:
                return
            plain.append(one)
        shardings = None if plain is None else tuple(plain)
        data = encode(
            _File(program=kept.program, out_shardings=shardings, arguments=kept.arguments)
        )
        with suppress(OSError):
            self._make_private()
            with tempfile.NamedTemporaryFile(dir=self.folder, delete=False) as file:
                file.write(gzip.compress(json.dumps(data).encode()))
            Path(file.name).replace(self._path(key))
            self._bound()

    def _path(self, key: str) -> Path:
        return self.folder / f"{key}.json.gz"

    def _make_private(self) -> None:
        """Raise OSError if others could change the entries."""
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.folder.stat()
        if found.st_uid != os.geteuid() or found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"{self.folder} is not this user's alone")

    def _bound(self) -> None:
        files = []
        for path in self.folder.iterdir():
            with suppress(FileNotFoundError):  # another process may have taken it
                found = path.stat()
                files.append((found.st_mtime, found.st_size, path))
        total = sum(size for _, size, _ in files)
        for _, size, path in sorted(files):
            if total <= MOST_BYTES:
                return
            path.unlink(missing_ok=True)
            total -= size


@functools.cache
def _versions() -> tuple[str, ...]:
    return (__version__, *(importlib.metadata.version(name) for name in ("jax", "jaxlib")))


@functools.cache
def _reader() -> str:
    """Return a digest of the code that reads a program, so that entries read by other code are never shown."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in READ_WITH)).hexdigest()


def _settings() -> list[tuple[str, str]]:
    """Return JAX's own settings, some of which change what is compiled; leaves out those without a text."""
    texts = [(name, repr(value)) for name, value in sorted(jax.config.values.items())]
    return [(name, text) for name, text in texts if " at 0x" not in text]
