"""Pod that is not there, as `nbdist.rehearse` gives it, and the programs that are compiled for it.

Functions are lowered and compiled for the pod's devices; none of them is run. A program that this process or an
earlier one has compiled is not compiled again. A notebook shows a program on the pod, with how its arguments lie.
"""

from __future__ import annotations

import dataclasses
import math
import os
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import jax
from jax.sharding import Mesh, SingleDeviceSharding

from nbdist.contract.program import MeshAxes, Program
from nbdist.contract.snapshot import Array, Device, NamedSharding, Notice, Snapshot
from nbdist.errors import RehearsalError
from nbdist.notation import count_text
from nbdist.program.compiled import program_of, refused
from nbdist.rehearsal import libtpu
from nbdist.rehearsal.cache import CachedProgram, Laid, ProgramCache, device_key, laid
from nbdist.rehearsal.devices import (
    Devices,
    describe,
    has_chosen_devices,
    has_described_backend,
)
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.torus import torus_of
from nbdist.rehearsal.values import user_line
from nbdist.spelling import command
from nbdist.view.feed import OneFrame
from nbdist.view.picture import Picture
from nbdist.view.program import compiled_snapshot

_MODULE = re.compile(r"module @([\w.-]+)")


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
        rehearsal = getattr(shell, "nbdist_rehearsal", None)
        if rehearsal is not None:
            rehearsal.show(self)
        else:
            self.picture().show(in_notebook=getattr(shell, "kernel", None) is not None)


def snapshot_maker(
    devices: Devices, lowered: Any, given: Sequence[Laid | None]
) -> Callable[[Program], Snapshot]:
    """Return a function that makes the snapshot of a program; reads everything it needs from `lowered` now.

    Args:
      devices: The pod's devices.
      lowered: A `jax.stages.Lowered`.
      given: How its arguments lie, as `CachedProgram.arguments`.
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


def _arguments(lowered: Any, given: Sequence[Laid | None]) -> list[tuple[Array, MeshAxes | None]]:
    """Return the arguments with a known layout, each with its mesh, or None where it lies on one device."""
    found = []
    infos = jax.tree_util.tree_leaves_with_path(lowered.args_info)
    for (path, info), one in zip(infos, given, strict=bool(given)):
        if one is None:
            continue
        sharding = one.sharding
        if isinstance(sharding, NamedSharding):
            rest = len(info.shape) - len(sharding.spec)
            sharding = replace(sharding, spec=(*sharding.spec, *[()] * rest))
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
    """A compiled program, and how its results lie.

    Attributes:
      program: The program as plain data.
      out_shardings: One for each result, in order; None where the program does not fit.
    """

    program: PodProgram
    out_shardings: tuple[Any, ...] | None


class Programs:
    """Compiler for the devices of a pod: compiles each program once, and none that another process has compiled.

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
          RehearsalError: The compiler does not take the function, for another reason than its size.
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
        """Return how the results of a lowered operation lie; the operation is not one of the programs.

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
            return CachedProgram(replace(program, mesh=next(meshes, None)), None, arguments)
        chosen = jax.tree.leaves(compiled.input_shardings, is_leaf=lambda leaf: leaf is None)
        return CachedProgram(
            program_of(compiled, limit=self._devices.topology.device_memory_bytes),
            tuple(jax.tree.leaves(compiled.output_shardings)),
            _laid(lowered, chosen),
        )


def _laid(lowered: Any, shardings: Sequence[Any]) -> tuple[Laid | None, ...]:
    """Return how each argument lies; empty where there is another number of shardings than of arguments."""
    if len(jax.tree.leaves(lowered.args_info)) != len(shardings):
        return ()
    return tuple(map(laid, shardings))


class Pod:
    """A pod that is not there. Programs are compiled for it; none is run.

    Args:
      devices: The pod's devices.
      programs: The compiler for them.
    """

    def __init__(self, devices: Devices, programs: Programs) -> None:
        self._devices = devices
        self._programs = programs

    @property
    def devices(self) -> tuple[Any, ...]:
        """Devices of the pod, as `jax.devices()` would give them on it."""
        return tuple(self._devices.all)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All programs that were compiled for the pod, in order."""
        return self._programs.all

    def mesh(self, axes: Any = None, /, **sizes: int) -> Mesh:
        """Return a mesh over all devices of the pod, with axes of type Auto.

        Args:
          axes: Such as `"data=16,model=16"`; or the sizes by their names, as in `pod.mesh(data=16, model=16)`. A
            size of -1 takes what the others leave.
          sizes: Likewise.

        Returns:
          A `jax.sharding.Mesh`; neighbours on it are neighbours on the pod where that is possible.

        Raises:
          OptionError: The mesh does not take all devices; the error names meshes that would.
        """
        return self._devices.mesh(axes if axes is not None else sizes)

    def compile(self, function: Any, /, *args: Any, **kwargs: Any) -> Program:
        """Compile a function for the pod; the function does not run.

        Args:
          function: Any that `jax.jit` takes, or the result of `jax.jit`, with its donations and shardings.
          *args: The function's arguments. Only their shapes, types and shardings over the pod's devices are used:
            `jax.ShapeDtypeStruct` with a `sharding`, what `jax.eval_shape` gives, arrays, and trees of these.
          **kwargs: Likewise.

        Returns:
          A `Program`: memory, collectives, and whether it fits. A notebook shows it on the pod.

        Raises:
          RehearsalError: The compiler does not take the function, or a sharding has devices that are none of the
            pod's.
        """
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        args, kwargs = jax.tree.map(self._abstract, (args, kwargs))
        name = getattr(function, "__name__", type(function).__name__)
        with jax.default_device(self._devices.all[0]):
            lowered = jitted.lower(*args, **kwargs)
            given = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves((args, kwargs))]
            return self._programs.compiled(lowered, name, given).program

    def _abstract(self, leaf: Any) -> Any:
        """Return the shape of an argument; anything that is no array is returned as it is."""
        if not hasattr(leaf, "shape") or not hasattr(leaf, "dtype"):
            return leaf
        sharding = getattr(leaf, "sharding", None)
        elsewhere = sharding is not None and any(
            device not in self._devices for device in sharding.device_set
        )
        if elsewhere and not isinstance(sharding, SingleDeviceSharding):
            raise RehearsalError(
                f"An argument of shape {tuple(leaf.shape)} is laid out over devices that are none of {self}: "
                f"{sharding}. Give jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=NamedSharding(pod.mesh(…), …))."
            )
        return jax.ShapeDtypeStruct(
            leaf.shape,
            leaf.dtype,
            sharding=None if elsewhere else sharding,
            weak_type=getattr(leaf, "weak_type", False),
        )

    def __repr__(self) -> str:
        return f"<{self._devices}, not there>"


def pod_here(topology: str, *, slices: int = 1) -> Pod:
    """Return a pod for this process to compile for; see `nbdist.rehearse`.

    Raises:
      OptionError: There is no such topology.
      RehearsalError: libtpu is not there, or this process may have devices that it would take.
    """
    read = read_topology(topology, slices=slices)
    found = libtpu.find()
    if not has_described_backend():
        _check_harmless()
    before = {name: os.environ.get(name) for name in libtpu.variables(found)}
    os.environ.update(libtpu.variables(found))
    try:
        devices = describe(read)
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
    return Pod(devices, Programs(devices, lambda program: None))


def _check_harmless() -> None:
    """Raise RehearsalError where compiling here could take devices, or change those that the process has.

    libtpu starts no TPU, but the first compilation has JAX start its backends, and so take a GPU's memory.
    """
    platforms = jax.config.jax_platforms
    if platforms != "cpu" and not has_chosen_devices():
        raise RehearsalError(
            "JAX has not chosen its devices in this process yet, and would when a program is compiled: it would "
            "take the memory of GPUs, or the TPUs, that a session may want. Call jax.devices() first if this "
            f"process may have them, set JAX_PLATFORMS=cpu before JAX is imported, or use {command('rehearse')}, "
            "which has a process of its own."
        )
    if "tpu" in (platforms or "") or (has_chosen_devices() and jax.default_backend() == "tpu"):
        raise RehearsalError(
            "This process has TPUs, and rehearsing here would change what it does with them. Use "
            f"{command('rehearse')}, which has a process of its own."
        )
