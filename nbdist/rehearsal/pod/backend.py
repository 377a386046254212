"""Pods in place of the devices that a process has: for all that a rehearsal does, or for one compilation.

`Rehearsal` makes the pod what JAX takes by default: `DescribedBackend` answers for its devices, and `Replaced`
gives those public functions of JAX anew that put values on devices past any trace. `pod_here` compiles for a pod
in the process that asks for it, whatever that is, and leaves the process its own devices.
"""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.backend import get_backend, register_backend_factory
from jax.sharding import NamedSharding, Sharding

from nbdist.errors import RehearsalError
from nbdist.rehearsal.plan import libtpu
from nbdist.rehearsal.plan.mesh import read_topology
from nbdist.rehearsal.pod.devices import (
    Devices,
    check_jax,
    describe,
    has_chosen_devices,
    is_current,
    made_current,
    user_line,
)
from nbdist.rehearsal.pod.pod import Pod, Programs
from nbdist.rehearsal.pod.shown import PodProgram
from nbdist.rehearsal.pod.trace import RehearsalTrace
from nbdist.rehearsal.pod.values import DescribedArray
from nbdist.spelling import command


class Replaced:
    """Public functions of JAX that put values on devices past any trace, given anew for one rehearsal's arrays.

    Args:
      trace: The rehearsal's trace.
    """

    def __init__(self, trace: RehearsalTrace) -> None:
        self._trace = trace

    def install(self) -> None:
        """Put them in the place of JAX's own; `jax.distributed.initialize` connects nothing."""
        jax.make_array_from_callback = self.make_array_from_callback
        jax.make_array_from_process_local_data = self.make_array_from_process_local_data
        jax.make_array_from_single_device_arrays = self.make_array_from_single_device_arrays
        jax.distributed.initialize = self.initialize
        for place, name in (
            (jax, "set_mesh"),
            (jax.sharding, "set_mesh"),
            (jax.sharding, "get_mesh"),
        ):
            if hasattr(place, name):
                setattr(place, name, self._outside(getattr(place, name)))

    def make_array_from_callback(
        self,
        shape: Sequence[int],
        sharding: Any,
        data_callback: Callable[[Any], Any],
        dtype: Any = None,
    ) -> DescribedArray:
        """Make an array as JAX does; call the function for one part, and only where the type is not given."""
        sharding = getattr(sharding, "sharding", sharding)
        if dtype is None:
            index = next(iter(sharding.addressable_devices_indices_map(tuple(shape)).values()))
            dtype = np.asarray(data_callback(index)).dtype
        return self._array(tuple(shape), dtype, sharding)

    def make_array_from_process_local_data(
        self, sharding: Any, local_data: Any, global_shape: Sequence[int] | None = None
    ) -> Any:
        """Make arrays as JAX does, from what the first host has."""
        sharding = getattr(sharding, "sharding", sharding)
        if isinstance(local_data, np.ndarray | jax.Array):
            shape = (
                global_shape
                if global_shape is not None
                else global_shape_of(sharding, local_data.shape)
            )
            return self._array(tuple(shape), local_data.dtype, sharding)
        return jax.tree.map(
            lambda leaf: self.make_array_from_process_local_data(sharding, np.asarray(leaf)),
            local_data,
        )

    def make_array_from_single_device_arrays(
        self, shape: Sequence[int], sharding: Any, arrays: Sequence[Any], *, dtype: Any = None
    ) -> DescribedArray:
        """Make an array as JAX does."""
        return self._array(tuple(shape), dtype if dtype is not None else arrays[0].dtype, sharding)

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """Connect nothing: one process rehearses for all."""

    def _outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function that works in a rehearsal, of one that JAX allows only where nothing is traced."""

        @functools.wraps(function, updated=())
        def called(*args: Any, **kwargs: Any) -> Any:
            if not is_current(self._trace):
                return function(*args, **kwargs)
            with jax.core.eval_context():
                return function(*args, **kwargs)

        return called

    def _array(self, shape: tuple[int, ...], dtype: Any, sharding: Sharding) -> DescribedArray:
        self._trace.check_devices([sharding])
        sharding.shard_shape(shape)
        struct = jax.ShapeDtypeStruct(
            shape, jax.dtypes.canonicalize_dtype(dtype), sharding=sharding
        )
        return self._trace.described(jax.typeof(struct), sharding, source="the input")


def global_shape_of(sharding: Any, local: Sequence[int]) -> tuple[int, ...]:
    """Return the shape of an array of which the first host has a part.

    Args:
      sharding: The sharding of the array; a `NamedSharding`.
      local: The shape of the part.

    Raises:
      RehearsalError: The shape does not follow from the sharding.
    """
    if not isinstance(sharding, NamedSharding):
        raise RehearsalError(
            f"The shape of an array with {sharding} does not follow from one host's part, in "
            f"{user_line() or 'the program'}: give global_shape."
        )
    parts = tuple(_parts(sharding, dimension) for dimension in range(len(local)))
    here = sharding.addressable_devices_indices_map(parts).values()
    shape = []
    for dimension, (size, count) in enumerate(zip(local, parts, strict=True)):
        starts = {index[dimension].indices(count)[:2] for index in here}
        shape.append(size * count // len(starts))
    return tuple(shape)


def _parts(sharding: NamedSharding, dimension: int) -> int:
    """Return into how many parts a dimension is cut."""
    names = sharding.spec[dimension] if dimension < len(sharding.spec) else None
    axes = (names,) if isinstance(names, str) else tuple(names or ())
    return math.prod(sharding.mesh.shape[axis] for axis in axes)


_FIRST = 1000
"""Priority higher than that of every backend of JAX."""


class DescribedBackend:
    """Backend that answers JAX's questions for a pod, and passes all others on to the compiler's own client.

    That client has devices and no local ones, where a script asks for those of its host.
    """

    def __init__(self, devices: Devices) -> None:
        self._devices = devices.all
        self._client = devices.all[0].client

    def devices(self) -> list[Any]:
        """Return the devices of all hosts."""
        return list(self._devices)

    def local_devices(self) -> list[Any]:
        """Return the devices of the first host; a rehearsal runs as its process."""
        return [device for device in self._devices if device.process_index == 0]

    def device_count(self) -> int:
        """Return the number of devices of all hosts."""
        return len(self._devices)

    def local_device_count(self) -> int:
        """Return the number of devices of the first host."""
        return len(self.local_devices())

    def __getattribute__(self, name: str) -> Any:
        """Hide the class: JAX asks with `isinstance` whether a backend runs programs; this one does not."""
        if name == "__class__":
            return type(object.__getattribute__(self, "_client"))
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiler's client."""
        return getattr(self._client, name)


def make_default(devices: Devices) -> None:
    """Make `jax.devices()` return the devices of the pod.

    Values that JAX computes while it traces, such as those of `jax.ensure_compile_time_eval`, are computed on the
    CPU.
    """
    register_backend_factory(
        "tpu", lambda: DescribedBackend(devices), priority=_FIRST, fail_quietly=False
    )
    jax.config.update("jax_default_device", jax.devices("cpu")[0])


def has_described_backend() -> bool:
    """Return whether this is the process of a rehearsal; starts no backend of JAX."""
    return has_chosen_devices() and type(get_backend()) is DescribedBackend


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


class Rehearsal:
    """A process whose devices are those of a pod: the pod, a mesh over it, and what happens to each operation.

    Args:
      topology: The topology, as `nbdist.rehearsal.plan.mesh.read_topology` reads it.
      slices: The number of slices of this topology.
      mesh: The axes of the mesh; None for no mesh.
      compiled: Called with each program.
      begins: Called with the name of each function before it is compiled.
    """

    def __init__(
        self,
        topology: str,
        *,
        slices: int = 1,
        mesh: str | None = None,
        compiled: Callable[[PodProgram], None],
        begins: Callable[[str], None] = lambda name: None,
    ) -> None:
        devices = describe(read_topology(topology, slices=slices))
        programs = Programs(devices, compiled, begins)
        self.pod = Pod(devices, programs)
        self.mesh = devices.mesh(mesh) if mesh is not None else None
        self.trace = RehearsalTrace(devices, programs)
        self._devices = devices
        self._never_left = contextlib.ExitStack()

    def begin(self) -> None:
        """Make the pod the devices of this process; from here on every operation of this thread is rehearsed.

        Raises:
          RehearsalError: JAX is of a version with which this is impossible.
        """
        check_jax()
        make_default(self._devices)
        Replaced(self.trace).install()
        self._never_left.enter_context(made_current(self.trace))
