"""Programs of a pod, shown: a picture with the pod's devices and how the arguments lie on them, and reports.

A snapshot is made when a program is shown; what it needs of JAX is read when the program is lowered. A report of
what a cell or a script compiles goes into a file, is shown, or both, as its starter asked.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

import jax

from nbdist.contract.program import Compiled, Compiling, MeshAxes, Program, Reported, to_line
from nbdist.contract.snapshot import (
    Array,
    Device,
    NamedSharding,
    Notice,
    Sharding,
    SingleDevice,
    Snapshot,
)
from nbdist.notation import count_text
from nbdist.program.compiled import mesh_axes
from nbdist.rehearsal.plan.torus import torus_of
from nbdist.rehearsal.pod.devices import Devices
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture
from nbdist.view.program import MESH, compiled_snapshot
from nbdist.view.text.program import program_text


class PodProgram(Program):
    """A program compiled for a pod: a `Program`, with a picture of it on the pod."""

    __slots__ = ("_make",)

    _make: Callable[[Program], Snapshot]

    @classmethod
    def of(cls, program: Program, make: Callable[[Program], Snapshot]) -> Self:
        """Return a program together with the function that makes its snapshot."""
        made = cls(
            **{each.name: getattr(program, each.name) for each in dataclasses.fields(program)}
        )
        object.__setattr__(made, "_make", make)
        return made

    def snapshot(self) -> Snapshot:
        """Return the pod with the bytes the program needs on each device, its arguments, and the program."""
        return self._make(self)

    def picture(self) -> Picture:
        """Return a picture of the pod, the program's mesh and arguments on it, and the program."""
        found = self.snapshot()
        return Picture(OneFrame(found), lambda: found)

    def _ipython_display_(self) -> None:
        """Show the program in a notebook or a terminal; IPython calls this."""
        # IPython is there, as it calls this.
        from IPython.core.getipython import get_ipython

        shell = get_ipython()
        resident = getattr(shell, "nbdist_resident", None)
        if resident is not None:
            resident.show(self)
        else:
            self.picture().show(in_notebook=getattr(shell, "kernel", None) is not None)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Laid:
    """Layout of an argument of a program.

    Attributes:
      sharding: The sharding, over the program's mesh or on one device.
      mesh: The mesh; None where the argument lies on one device.
    """

    sharding: Sharding
    mesh: MeshAxes | None


def snapshot_maker(
    devices: Devices, lowered: Any, laid: Sequence[Laid | None]
) -> Callable[[Program], Snapshot]:
    """Return a function that makes the snapshot of a program; reads everything it needs from `lowered` now.

    Args:
      devices: The pod's devices.
      lowered: A `jax.stages.Lowered`.
      laid: How its arguments lie, see `laid_of` and `laid_as_given`.
    """
    arguments = _arguments(lowered, laid)
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


def laid_of(lowered: Any, compiled: Any) -> tuple[Laid | None, ...]:
    """Return how the arguments of a program lie, one entry each.

    Args:
      lowered: A `jax.stages.Lowered`.
      compiled: Its `jax.stages.Compiled`.

    Returns:
      None for an argument that the program does not use or that has another layout; empty where JAX says too
      little.
    """
    infos = jax.tree.leaves(lowered.args_info)
    shardings = jax.tree.leaves(compiled.input_shardings, is_leaf=lambda leaf: leaf is None)
    return _laid(infos, shardings)


def laid_as_given(lowered: Any, given: Sequence[Any]) -> tuple[Laid | None, ...]:
    """Return how the arguments of a program that was not compiled lie, as far as this was given, one entry each.

    Args:
      lowered: A `jax.stages.Lowered`.
      given: The sharding that each argument was given; None where the compiler would have chosen the layout.

    Returns:
      None for an argument with no sharding or with another layout; empty where these cannot be told apart.
    """
    return _laid(jax.tree.leaves(lowered.args_info), given)


def mesh_of(laid: Sequence[Laid | None]) -> MeshAxes | None:
    """Return the first mesh on which arguments lie; None where none lies on any."""
    return next((one.mesh for one in laid if one is not None and one.mesh is not None), None)


def _laid(infos: Sequence[Any], shardings: Sequence[Any]) -> tuple[Laid | None, ...]:
    """Return the shardings as plain data, one for each argument; empty where the numbers do not match."""
    if len(infos) != len(shardings):
        return ()
    found: list[Laid | None] = []
    for info, sharding in zip(infos, shardings, strict=True):
        described = _sharding(sharding, len(info.shape))
        on_mesh = isinstance(described, NamedSharding)
        mesh = mesh_axes(sharding.mesh) if on_mesh else None
        found.append(None if described is None else Laid(sharding=described, mesh=mesh))
    return tuple(found)


def _not_compiled(shown: int, count: int) -> Notice:
    """Return a notice that there is no program behind a picture, and where its arguments come from.

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


def _arguments(lowered: Any, laid: Sequence[Laid | None]) -> list[tuple[Array, MeshAxes | None]]:
    """Return the arguments with a known layout, each with its mesh, or None where it lies on one device."""
    if not laid:
        return []
    found = []
    infos = jax.tree_util.tree_leaves_with_path(lowered.args_info)
    for (path, info), one in zip(infos, laid, strict=True):
        if one is None:
            continue
        array = Array(
            path=_name(path),
            shape=tuple(info.shape),
            dtype=str(info.dtype),
            nbytes=info.dtype.itemsize * math.prod(info.shape),
            sharding=one.sharding,
        )
        found.append((array, one.mesh))
    return found


def _sharding(sharding: Any, dimensions: int) -> Sharding | None:
    """Return a sharding as plain data; None where it is missing, or neither over a mesh nor on one device."""
    if isinstance(sharding, jax.sharding.NamedSharding):
        if not isinstance(sharding.mesh, jax.sharding.Mesh):
            return None  # an abstract one, which has no devices
        # Since JAX 0.10.2 the entries have a name, and a spec with unreduced axes refuses to be iterated itself.
        entries = getattr(sharding.spec, "partitions", sharding.spec)
        spec = [_axes(entry) for entry in entries]
        return NamedSharding(
            mesh=MESH,
            spec=(*spec, *[()] * (dimensions - len(spec))),
            unreduced=tuple(sorted(getattr(sharding.spec, "unreduced", ()))),
            memory_kind=sharding.memory_kind,
        )
    if sharding is None or len(sharding.device_set) > 1:
        return None
    (device,) = sharding.device_set
    return SingleDevice(device=_key(device), memory_kind=sharding.memory_kind)


def _axes(entry: Any) -> tuple[str, ...]:
    if isinstance(entry, str):
        return (entry,)
    return tuple(map(str, entry)) if isinstance(entry, tuple) else ()


def _name(path: Any) -> str:
    """Return `args[0]['w']` or `kwargs['rate']`."""
    kind, *rest = path
    return f"{('args', 'kwargs')[kind.idx]}{jax.tree_util.keystr(tuple(rest))}"


def _key(device: Any) -> str:
    return f"{device.process_index}:{device.id}"


def _device(device: Any) -> Device:
    coords = getattr(device, "coords", None)
    return Device(
        key=_key(device),
        process_id=device.process_index,
        id=device.id,
        platform=device.platform,
        kind=device.device_kind,
        coords=None if coords is None else tuple(int(place) for place in coords),
        memory=None,
        live_bytes=None,
    )


class ProgramReport:
    """The report of one cell, or of a script; has each program once.

    Args:
      path: An existing file for the report; None for none.
      show: Called to show a program; None to show none.
    """

    def __init__(self, path: Path | None, show: Callable[[PodProgram], None] | None) -> None:
        self._path = path
        self._show = show
        self._seen: set[int] = set()

    def begins(self, name: str) -> None:
        """Report that a function is compiled next."""
        self._write(Compiling(name=name))

    def compiled(self, program: PodProgram) -> None:
        """Report the program that a function needs, now that it is compiled."""
        if not self.first(program):
            return
        self._write(Compiled(program=program))
        if self._show is not None:
            self._show(program)

    def first(self, program: PodProgram) -> bool:
        """Return whether this is the first call with a program; later calls return false."""
        if id(program) in self._seen:
            return False
        self._seen.add(id(program))
        return True

    def _write(self, reported: Reported) -> None:
        if self._path is not None:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(to_line(reported))


def printed(program: PodProgram) -> None:
    """Print a program, where pictures cannot be shown."""
    print(program_text(program), end="\n\n", flush=True)
