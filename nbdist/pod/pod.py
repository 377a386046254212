"""`nbdist.rehearse`: a pod that is not there, and what is compiled for it."""

from __future__ import annotations

from typing import Any

import jax
from jax.sharding import Mesh, SingleDeviceSharding

from nbdist.contract.program import Program
from nbdist.errors import RehearsalError
from nbdist.pod.devices import Devices
from nbdist.pod.programs import Programs


class Pod:
    """A pod that is not there. Programs are compiled for it, and none runs.

    Args:
      devices: Of the pod.
      programs: What compiles for it.
    """

    def __init__(self, devices: Devices, programs: Programs) -> None:
        self._devices = devices
        self._programs = programs

    @property
    def devices(self) -> tuple[Any, ...]:
        """Its devices, as `jax.devices()` would give them on it."""
        return tuple(self._devices.all)

    @property
    def programs(self) -> tuple[Program, ...]:
        """All that was compiled for it, in order."""
        return self._programs.all

    def mesh(self, axes: Any = None, /, **sizes: int) -> Mesh:
        """A mesh over all its devices, with axes of type Auto.

        Args:
          axes: Such as `"data=16,model=16"`; or the sizes by their names, as in `pod.mesh(data=16, model=16)`. A
            size of -1 takes what the others leave.
          sizes: Likewise.

        Returns:
          A `jax.sharding.Mesh`; neighbours on it are neighbours on the pod where that can be.

        Raises:
          OptionError: It does not take all devices; the text names meshes that would.
        """
        return self._devices.mesh(axes if axes is not None else sizes)

    def compile(self, function: Any, /, *args: Any, **kwargs: Any) -> Program:
        """Compiles a function for the pod; it does not run.

        Args:
          function: Any that `jax.jit` takes, or what `jax.jit` gives, with its donations and shardings.
          *args: Its arguments, of which only shapes and types are looked at, and shardings over the pod's devices:
            `jax.ShapeDtypeStruct` with a `sharding`, what `jax.eval_shape` gives, arrays, and trees of these.
          **kwargs: Likewise.

        Returns:
          A `Program`: memory, collectives, and whether it fits. A notebook shows it on the pod.

        Raises:
          RehearsalError: The compiler does not take it, or a sharding has devices that are none of the pod's.
        """
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        args, kwargs = jax.tree.map(self._abstract, (args, kwargs))
        name = getattr(function, "__name__", type(function).__name__)
        with jax.default_device(self._devices.all[0]):
            lowered = jitted.lower(*args, **kwargs)
            given = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves((args, kwargs))]
            return self._programs.compiled(lowered, name, given).program

    def _abstract(self, leaf: Any) -> Any:
        """The shape of an argument; what is no array is left as it is."""
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
