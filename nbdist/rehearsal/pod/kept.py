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
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

import nbdist.contract.program
import nbdist.contract.snapshot
import nbdist.program
import nbdist.rehearsal.pod.shown
from nbdist.contract.program import Program
from nbdist.contract.wire import decode, encode
from nbdist.errors import WireError
from nbdist.rehearsal.plan.libtpu import user_cache
from nbdist.rehearsal.pod.devices import Devices, compiled_for
from nbdist.rehearsal.pod.shown import Laid
from nbdist.version import __version__


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainNamed:
    """A `NamedSharding` as plain data.

    Attributes:
      names: Names of the mesh's axes.
      shape: Sizes of the axes.
      types: Names of the axes' types.
      devices: Ids of the devices, in the mesh's order.
      spec: For each dimension the axes that cut it; None for none.
      memory_kind: The kind of memory, as JAX names it.
    """

    names: tuple[str, ...]
    shape: tuple[int, ...]
    types: tuple[str, ...]
    devices: tuple[int, ...]
    spec: tuple[tuple[str, ...] | None, ...]
    memory_kind: str | None
    kind: Literal["named"] = "named"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlainSingle:
    """A `SingleDeviceSharding` as plain data.

    Attributes:
      device: The device's id.
      memory_kind: The kind of memory, as JAX names it.
    """

    device: int
    memory_kind: str | None
    kind: Literal["single"] = "single"


Plain = PlainNamed | PlainSingle


def plain_shardings(shardings: Sequence[Any], devices: Devices) -> tuple[Plain, ...] | None:
    """Return shardings as plain data; None where one of them could not be made again from it."""
    found = []
    for sharding in shardings:
        plain = _plain(sharding)
        if plain is None or shardings_of([plain], devices) != (sharding,):
            return None
        found.append(plain)
    return tuple(found)


def shardings_of(plain: Sequence[Plain], devices: Devices) -> tuple[Any, ...]:
    """Return the shardings that plain data describes.

    Raises:
      KeyError: A device is none of the pod's.
    """
    return tuple(_sharding(one, devices) for one in plain)


def _plain(sharding: Any) -> Plain | None:
    if isinstance(sharding, SingleDeviceSharding):
        (device,) = sharding.device_set
        return PlainSingle(device=device.id, memory_kind=sharding.memory_kind)
    if not isinstance(sharding, NamedSharding) or not isinstance(sharding.mesh, Mesh):
        return None
    mesh = sharding.mesh
    entries = [(one,) if isinstance(one, str) else one for one in sharding.spec]
    if not all(one is None or isinstance(one, tuple) for one in entries):
        return None
    return PlainNamed(
        names=tuple(map(str, mesh.axis_names)),
        shape=tuple(mesh.devices.shape),
        types=tuple(one.name for one in mesh.axis_types),
        devices=tuple(device.id for device in mesh.devices.flat),
        spec=tuple(entries),
        memory_kind=sharding.memory_kind,
    )


def _sharding(plain: Plain, devices: Devices) -> Any:
    if isinstance(plain, PlainSingle):
        return SingleDeviceSharding(devices.by_id[plain.device], memory_kind=plain.memory_kind)
    placed = np.array([devices.by_id[number] for number in plain.devices], dtype=object)
    mesh = Mesh(
        placed.reshape(plain.shape),
        plain.names,
        axis_types=tuple(AxisType[one] for one in plain.types),
    )
    entries = [one[0] if one is not None and len(one) == 1 else one for one in plain.spec]
    return NamedSharding(mesh, PartitionSpec(*entries), memory_kind=plain.memory_kind)


MOST_BYTES = 128 * 1024**2
"""Limit for all files together; the least recently used file goes first."""

VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables by which a person changes how the compiler works."""

READ_WITH = (
    *sorted(Path(nbdist.program.__file__).parent.glob("*.py")),
    Path(nbdist.contract.program.__file__),
    Path(nbdist.contract.snapshot.__file__),
    Path(nbdist.rehearsal.pod.shown.__file__),
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
      arguments: How the arguments lie, see `nbdist.rehearsal.pod.shown.laid_of`.
    """

    program: Program | None
    out_shardings: tuple[Any, ...] | None
    arguments: tuple[Laid | None, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _File:
    program: Program | None
    out_shardings: tuple[Plain, ...] | None
    arguments: tuple[Laid | None, ...]


class KeptPrograms:
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
            kept = CachedProgram(
                found.program,
                None if shardings is None else shardings_of(shardings, self._devices),
                found.arguments,
            )
            os.utime(path)
        except (OSError, EOFError, ValueError, KeyError, WireError):
            return None
        return kept

    def put(self, key: str, kept: CachedProgram) -> None:
        """Keep an entry, if possible."""
        shardings = None
        if kept.out_shardings is not None:
            shardings = plain_shardings(kept.out_shardings, self._devices)
            if shardings is None:
                return
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
