"""Programs compiled for the devices of a pod, each only once, across processes as well.

`Programs` lowers and compiles, and runs nothing. A notebook shows a program on the pod, with its arguments'
layouts (`PodProgram`). `ProgramCache` keeps the facts read from the programs of all the user's processes, keyed by
content, in a private folder.

JAX's own cache cannot be used: it keeps executables, which cannot be loaded without the devices (`PjRtCompiler
must be constructed with a Client to call DeserializeLoadedExecutable`). This cache keeps facts and the layouts of
arrays on the pod as plain data, which another process with the same pod can read.
"""

from __future__ import annotations

import functools
import gzip
import hashlib
import importlib.metadata
import json
import math
import os
import re
import stat
import tempfile
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import jax
from msgspec import structs

import nbdist.contract.program
import nbdist.contract.snapshot
import nbdist.program
import nbdist.rehearsal.devices
from nbdist.contract.program import MeshAxes, Program
from nbdist.contract.snapshot import Array, Device, NamedSharding, Snapshot
from nbdist.contract.wire import Data, decode, encode
from nbdist.errors import Notice, RehearsalError, WireError
from nbdist.notation import count_text
from nbdist.program.compiled import program_of, refused
from nbdist.rehearsal.devices import Devices, Laid, compiled_for, device_key, laid, sharding_of
from nbdist.rehearsal.libtpu import user_cache
from nbdist.rehearsal.torus import torus_of
from nbdist.rehearsal.values import user_line
from nbdist.version import __version__
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture
from nbdist.view.program import compiled_snapshot

MOST_BYTES = 128 * 1024**2
"""Limit for all files together; the least recently used file goes first."""

VARIABLES = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables by which a person changes how the compiler works."""

READ_WITH = (
    *sorted(Path(nbdist.program.__file__).parent.glob("*.py")),
    Path(nbdist.contract.program.__file__),
    Path(nbdist.contract.snapshot.__file__),
    Path(nbdist.rehearsal.devices.__file__),
    Path(__file__),
)
"""The files with the code that reads a program, and with the format of a cache entry."""

_CELL = re.compile(r"[^\"\s]*[/\\]ipykernel_\d+[/\\]\d+\.py")
"""Pattern of a cell's file: the name differs in each process, and with the options of %%dist_rehearse."""


@dataclass(frozen=True, slots=True)
class CachedProgram:
    """An entry of the cache: the facts of one compiled program.

    Attributes:
      program: None for a single operation, which is not one of the user's programs.
      out_shardings: One for each result; None if the program does not fit.
      arguments: The layout of each argument; None for an unused one or one with another kind of layout. Empty if
        JAX does not give enough information.
    """

    program: Program | None
    out_shardings: tuple[Any, ...] | None
    arguments: tuple[Laid | None, ...] = ()


class _File(Data):
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
        """Return a key, equal if the compiler would do the same and the program would name the same lines.

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
        # Includes files and lines, since a program names them.
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
    """Return JAX's settings, some of which change compilation; settings without a text form are left out."""
    texts = [(name, repr(value)) for name, value in sorted(jax.config.values.items())]
    return [(name, text) for name, text in texts if " at 0x" not in text]


_MODULE = re.compile(r"module @([\w.-]+)")


class PodProgram(Program, dict=True):
    """A program compiled for a pod: a `Program`, with a picture of it on the pod."""

    @classmethod
    def of(cls, program: Program, make: Callable[[Program], Snapshot]) -> Self:
        """Return a program together with the function that makes its snapshot."""
        made = cls(**structs.asdict(program))
        made.__dict__["make"] = make  # no field, so it is neither compared nor sent
        return made

    def snapshot(self) -> Snapshot:
        """Return the pod with the bytes the program needs on each device, its arguments, and the program."""
        found: Snapshot = self.__dict__["make"](self)
        return found

    def picture(self) -> Picture:
        """Return a picture of the pod, the program's mesh and arguments on it, and the program."""
        found = self.snapshot()
        return Picture(OneFrame(found), lambda: found)

    def _ipython_display_(self) -> None:
        """Show the program in a notebook or a terminal; IPython calls this."""
        # IPython is there, as it calls this.
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        rehearsal = getattr(shell, "nbdist_rehearsal", None)
        if rehearsal is not None:
            rehearsal.show(self)
        else:
            self.picture().show(in_notebook=getattr(shell, "kernel", None) is not None)


def snapshot_maker(
    devices: Devices, lowered: Any, given: Sequence[Laid | None]
) -> Callable[[Program], Snapshot]:
    """Return a function that makes a program's snapshot; everything needed is read from `lowered` now.

    Args:
      devices: The pod's devices.
      lowered: A `jax.stages.Lowered`.
      given: The layouts of its arguments, as `CachedProgram.arguments`.
    """
    arguments = _arguments(lowered, given)
    count = len(jax.tree.leaves(lowered.args_info))

    def make(program: Program) -> Snapshot:
        found = [_device(device) for device in devices.all]
        arrays = [array for array, mesh in arguments if mesh is None or mesh == program.mesh]
        return compiled_snapshot(
            program,
            found,
            arrays=arrays,
            arrays_omitted=len(arguments) - len(arrays),
            torus=torus_of(devices.topology, found),
            notices=() if program.refusal is None else (_not_compiled(len(arrays), count),),
        )

    return make


def _not_compiled(shown: int, count: int) -> Notice:
    """Return a notice that the picture has no compiled program, and where its arguments come from.

    Args:
      shown: The number of arguments in the picture.
      count: The number of arguments of the program.
    """
    if not count:
        text = "The program has no arguments that could be shown."
    elif not shown:
        text = "How its arguments would lie is not known: none was given a sharding."
    else:
        text = "Arguments lie as they were given. What its devices would exchange is not known."
        if left := count - shown:
            text += f" Not shown: {count_text(left, 'argument')} without a sharding on this mesh."
    return Notice(level="warn", title="Not compiled.", text=text)


def _arguments(lowered: Any, given: Sequence[Laid | None]) -> list[tuple[Array, MeshAxes | None]]:
    """Return the arguments with a known layout, each with its mesh (None if it is on one device)."""
    found = []
    infos = jax.tree_util.tree_leaves_with_path(lowered.args_info)
    for (path, info), one in zip(infos, given, strict=bool(given)):
        if one is None:
            continue
        sharding = one.sharding
        if isinstance(sharding, NamedSharding):
            rest = len(info.shape) - len(sharding.spec)
            sharding = structs.replace(sharding, spec=(*sharding.spec, *[()] * rest))
        array = Array(
            path=_name(path),
            shape=tuple(info.shape),
            dtype=str(info.dtype),
            nbytes=info.dtype.itemsize * math.prod(info.shape),
            sharding=sharding,
        )
        found.append((array, one.mesh))
    return found


def _name(path: Any) -> str:
    """Return `args[0]['w']` or `kwargs['rate']`."""
    kind, *rest = path
    return f"{('args', 'kwargs')[kind.idx]}{jax.tree_util.keystr(tuple(rest))}"


def _device(device: Any) -> Device:
    coords = getattr(device, "coords", None)
    return Device(
        key=device_key(device),
        process_id=device.process_index,
        id=device.id,
        platform=device.platform,
        kind=device.device_kind,
        coords=None if coords is None else tuple(int(place) for place in coords),
        memory=None,
        live_bytes=None,
    )


@dataclass(frozen=True, slots=True)
class CompiledProgram:
    """A compiled program, and the shardings of its results.

    Attributes:
      program: The program as plain data.
      out_shardings: One for each result, in order; None if the program does not fit.
    """

    program: PodProgram
    out_shardings: tuple[Any, ...] | None


class Programs:
    """Compiler for a pod's devices; compiles a program only if no process of this user has compiled it.

    Args:
      devices: The pod's devices.
      compiled: Called with each program that a function needs, also if it was compiled before.
      begins: Called with the name of a function before it is compiled.
    """

    def __init__(
        self,
        devices: Devices,
        compiled: Callable[[PodProgram], None],
        begins: Callable[[str], None] = lambda name: None,
    ) -> None:
        self._devices = devices
        self._compiled = compiled
        self._begins = begins
        self._cache = ProgramCache(devices)
        self._known: dict[str, CompiledProgram] = {}
        self._calls: dict[Hashable, CompiledProgram] = {}

    @property
    def all(self) -> tuple[PodProgram, ...]:
        """All programs, in the order in which they were compiled."""
        return tuple(one.program for one in self._known.values())

    def compiled_before(self, call: Hashable) -> CompiledProgram | None:
        """Return the compiled program of an earlier, equal call; None if there was none.

        Args:
          call: See `compiled`.
        """
        found = self._calls.get(call)
        if found is not None:
            self._compiled(found.program)
        return found

    def compiled(
        self, lowered: Any, name: str, given: Sequence[Any], call: Hashable = None
    ) -> CompiledProgram:
        """Return the compiled program of a lowered function.

        Args:
          lowered: What `jax.jit(…).lower(…)` returns.
          name: The function's name.
          given: The sharding that each of its arguments was given; None for an argument without one.
          call: Equal for calls that need not be lowered again; None: do not remember the call.

        Raises:
          RehearsalError: The compiler rejects the function, for a reason other than its size.
        """
        key = self._cache.key(lowered)
        if key not in self._known:
            kept = self._cache.get(key)
            if kept is None or kept.program is None:
                self._begins(name)
                kept = self._compile(lowered, name, given)
                self._cache.put(key, kept)
            assert kept.program is not None
            make = snapshot_maker(self._devices, lowered, kept.arguments)
            program = PodProgram.of(kept.program, make)
            self._known[key] = CompiledProgram(program, kept.out_shardings)
        found = self._known[key]
        if call is not None:
            self._calls[call] = found
        self._compiled(found.program)
        return found

    def out_shardings(self, lowered: Any) -> tuple[Any, ...]:
        """Return the shardings of a lowered operation's results; the operation does not count as a program.

        Args:
          lowered: As for `compiled`.
        """
        key = self._cache.key(lowered)
        kept = self._cache.get(key)
        if kept is not None and kept.out_shardings is not None:
            return kept.out_shardings
        found = tuple(jax.tree.leaves(lowered.compile().output_shardings))
        self._cache.put(key, CachedProgram(None, found))
        return found

    def _compile(self, lowered: Any, name: str, given: Sequence[Any]) -> CachedProgram:
        try:
            compiled = lowered.compile()
        except jax.errors.JaxRuntimeError as error:
            module = _MODULE.search(lowered.as_text())
            program = refused(str(error), module[1] if module else "")
            if program is None:
                raise RehearsalError(
                    f"{name} cannot be compiled for {self._devices.topology}, in {user_line()}: "
                    f"{error}"
                ) from error
            arguments = _laid(lowered, given)
            meshes = (one.mesh for one in arguments if one is not None and one.mesh is not None)
            return CachedProgram(structs.replace(program, mesh=next(meshes, None)), None, arguments)
        chosen = jax.tree.leaves(compiled.input_shardings, is_leaf=lambda leaf: leaf is None)
        return CachedProgram(
            program_of(compiled, limit=self._devices.topology.device_memory_bytes),
            tuple(jax.tree.leaves(compiled.output_shardings)),
            _laid(lowered, chosen),
        )


def _laid(lowered: Any, shardings: Sequence[Any]) -> tuple[Laid | None, ...]:
    """Return each argument's layout; empty if the numbers of shardings and arguments differ."""
    if len(jax.tree.leaves(lowered.args_info)) != len(shardings):
        return ()
    return tuple(map(laid, shardings))
