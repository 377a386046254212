"""Cache of compiled programs of this user's processes, kept by content in a private folder.

JAX's own cache does not serve: it keeps executables, which nothing can load for devices that are not there
(`PjRtCompiler must be constructed with a Client to call DeserializeLoadedExecutable`). This cache keeps the facts
that were read from them.
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

import nbdist.contract.program
import nbdist.contract.snapshot
import nbdist.pod.shardings
import nbdist.pod.shown
import nbdist.program
from nbdist.contract.program import Program
from nbdist.contract.wire import decode, encode
from nbdist.errors import WireError
from nbdist.machine.user_cache import user_cache
from nbdist.pod.devices import Devices
from nbdist.pod.private import compiled_for
from nbdist.pod.shardings import Plain, plain_shardings, shardings_of
from nbdist.pod.shown import Laid
from nbdist.version import __version__

MOST_BYTES = 128 * 1024**2
"""Limit for all files together; the least recently used file goes first."""

VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables by which a person changes how the compiler works."""

READ_WITH = (
    *sorted(Path(nbdist.program.__file__).parent.glob("*.py")),
    Path(nbdist.contract.program.__file__),
    Path(nbdist.contract.snapshot.__file__),
    Path(nbdist.pod.shardings.__file__),
    Path(nbdist.pod.shown.__file__),
    Path(__file__),
)
"""The files with the code that reads a program, and with the format of a cache entry."""

_CELL = re.compile(r"[^\"\s]*[/\\]ipykernel_\d+[/\\]\d+\.py")
"""The file of a cell: its name differs in each process, and where only options of %%dist_rehearse differ."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An entry of the cache: the facts of one compiled program.

    Attributes:
      program: None for a single operation, which is not a program of the user's.
      out_shardings: One for each result; None where the program does not fit.
      arguments: How the arguments lie, see `nbdist.pod.shown.laid_of`.
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

    def get(self, key: str) -> Kept | None:
        """Return the entry, or None; a file that cannot be read counts as missing."""
        path = self._path(key)
        try:
            data = json.loads(gzip.decompress(path.read_bytes()))
            found = decode(_File, data)
            shardings = found.out_shardings
            kept = Kept(
                found.program,
                None if shardings is None else shardings_of(shardings, self._devices),
                found.arguments,
            )
            os.utime(path)
        except (OSError, EOFError, ValueError, KeyError, WireError):
            return None
        return kept

    def put(self, key: str, kept: Kept) -> None:
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
