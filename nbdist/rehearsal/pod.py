"""Pod that is not there, as `nbdist.rehearse` gives it: functions are compiled for its devices, and not run."""

from __future__ import annotations

import os
from typing import Any

import jax
from jax.sharding import Mesh, SingleDeviceSharding

from nbdist.contract.program import Program
from nbdist.errors import RehearsalError
from nbdist.rehearsal import libtpu
from nbdist.rehearsal.devices import Devices, describe, has_chosen_devices, has_described_backend
from nbdist.rehearsal.programs import Programs
from nbdist.rehearsal.topology import read_topology
from nbdist.spelling import command


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
