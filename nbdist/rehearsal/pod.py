"""A pod that does not exist here, and two ways to its compiler: `Pod.compile`, and the trace of a rehearsal.

`nbdist.rehearse` returns a `Pod`, which compiles functions for its devices and runs none. In the process of a
rehearsal, `RehearsalTrace` receives each operation: a jitted function is compiled; of any other operation only the
shape of the result is computed.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import Mesh, NamedSharding, Sharding, SingleDeviceSharding

from nbdist.contract.program import Program
from nbdist.errors import RehearsalError
from nbdist.rehearsal import libtpu
from nbdist.rehearsal.devices import (
    Devices,
    JitCall,
    describe,
    has_chosen_devices,
    has_described_backend,
    jit_call,
)
from nbdist.rehearsal.programs import CompiledProgram, Programs
from nbdist.rehearsal.topology import read_topology
from nbdist.rehearsal.values import DescribedArray, Origin, user_line
from nbdist.spelling import command


class Pod:
    """A pod that does not exist here. Programs are compiled for it; none is run.

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
          RehearsalError: The compiler rejects the function, or a sharding has devices outside the pod.
        """
        jitted = function if hasattr(function, "lower") else jax.jit(function)
        args, kwargs = jax.tree.map(self._abstract, (args, kwargs))
        name = getattr(function, "__name__", type(function).__name__)
        with jax.default_device(self._devices.all[0]):
            lowered = jitted.lower(*args, **kwargs)
            given = [getattr(leaf, "sharding", None) for leaf in jax.tree.leaves((args, kwargs))]
            return self._programs.compiled(lowered, name, given).program

    def _abstract(self, leaf: Any) -> Any:
        """Return the shape of an argument; anything but an array is returned unchanged."""
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
      RehearsalError: libtpu is missing, or compiling could take devices for this process.
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
    """Raise RehearsalError if compiling here could take devices, or change this process's devices.

    libtpu starts no TPU, but the first compilation makes JAX start its backends, which takes a GPU's memory.
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


MOST_KEPT = 1 << 16
"""In bytes; larger NumPy arrays are not kept for their values."""


class RehearsalTrace(jax.core.Trace):
    """Receives each operation before it runs, and runs none.

    Args:
      devices: The pod's devices.
      programs: Compiles for the pod.
      stand_in: The number used for values that are not computed; None: none is used.
    """

    __slots__ = ("_devices", "_programs", "_shardings", "_single", "stand_in")

    def __init__(self, devices: Devices, programs: Programs, stand_in: float | None = None) -> None:
        super().__init__()
        self._devices = devices
        self._programs = programs
        self._single = SingleDeviceSharding(devices.all[0])
        self._shardings: dict[Any, tuple[Any, ...]] = {}
        self.stand_in = stand_in

    # -- as JAX calls it ---------------------------------------------------------------------------

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: Any, /) -> Any:
        """Handle an operation outside `jax.jit`, or a call of a jitted function."""
        call = jit_call(primitive, params)
        values = [self.stage_value(one) for one in args]
        for value in values:
            value.check_alive()
        if call is not None and not call.of_jax:
            return self._run(call, values)
        if primitive.name == "device_put":
            return self._put(primitive, values, params)
        return self._operation(primitive, values, params, call)

    def process_shard_map(
        self, primitive: Any, fun: Any, args: Sequence[Any], /, **params: Any
    ) -> Any:
        """Handle `jax.shard_map` outside `jax.jit`, which JAX would run device by device."""
        raise RehearsalError(
            f"jax.shard_map is called outside jax.jit in {user_line()}, and is compiled only "
            "inside: write jax.jit(jax.shard_map(…))."
        )

    def process_custom_jvp_call(
        self, primitive: Any, fun: Any, jvp: Any, tracers: Sequence[Any], /, **_: Any
    ) -> Any:
        """Call the function without its derivative: code that asks for a derivative uses another trace."""
        return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Sequence[Any], /, **_: Any
    ) -> Any:
        """Call the function itself, as `process_custom_jvp_call`."""
        return fun.call_wrapped(*tracers)

    def stage_value(self, val: Any) -> DescribedArray:
        """Return an array of the rehearsal for a number, a NumPy array or an array that JAX has computed."""
        if isinstance(val, DescribedArray):
            return val
        aval = jax.typeof(val)
        kept = getattr(val, "nbytes", 0) <= MOST_KEPT
        copied = np.array(val) if isinstance(val, np.ndarray) else val
        return self.described(aval, origin=Origin(lambda: copied) if kept else None)

    # -- what it makes of them ---------------------------------------------------------------------

    def described(
        self,
        aval: Any,
        sharding: Sharding | None = None,
        *,
        committed: bool | None = None,
        origin: Origin | None = None,
        source: str = "",
    ) -> DescribedArray:
        """Return an array; without a sharding it is on the first device."""
        return DescribedArray(
            self,
            aval,
            sharding=sharding or self._single,
            committed=sharding is not None if committed is None else committed,
            origin=origin,
            source=source,
        )

    def check_devices(self, shardings: Sequence[Any]) -> None:
        """Raise RehearsalError for devices that are not in the pod."""
        for sharding in shardings:
            if isinstance(sharding, Sharding) and hasattr(sharding, "device_set"):
                others = [one for one in sharding.device_set if one not in self._devices]
                if others:
                    raise RehearsalError(
                        f"{sharding} has {len(others)} devices that are none of the rehearsal's "
                        f"{self._devices.topology}, such as {others[0]}, in {user_line()}. Make "
                        "the mesh of jax.devices(), or use the rehearsal's mesh."
                    )

    def _run(self, call: JitCall, values: Sequence[DescribedArray]) -> list[DescribedArray]:
        """Compile a jitted function for its arguments."""
        self.check_devices([*call.in_shardings, *call.out_shardings])
        _check_donated_once(call, values)
        compiled = self._programs.compiled_before(_call_key(call, values))
        if compiled is None:
            compiled = self._compile(call, values)
        for value, donated in zip(values, call.donated, strict=True):
            if donated and _taken(value, call):
                value.donated_to(call.name)
        shardings = compiled.out_shardings or call.out_shardings
        chosen = _chosen(call, values)
        return [
            DescribedArray(
                self,
                aval,
                sharding=sharding,
                committed=chosen or sharding is None or len(sharding.device_set) > 1,
                source=call.name,
            )
            for aval, sharding in zip(call.jaxpr.out_avals, shardings, strict=True)
        ]

    def _compile(self, call: JitCall, values: Sequence[DescribedArray]) -> CompiledProgram:
        jitted = jax.jit(
            _called(call),
            in_shardings=call.in_shardings if any(call.in_shardings) else None,
            out_shardings=list(call.out_shardings) if any(call.out_shardings) else None,
            donate_argnums=[n for n, donated in enumerate(call.donated) if donated],
            compiler_options=call.compiler_options or None,
        )
        with jax.default_device(self._devices.all[0]):
            structs = [_struct(one) for one in values]
            lowered = jitted.lower(*structs)
            given = [
                named or struct.sharding
                for named, struct in zip(call.in_shardings, structs, strict=True)
            ]
            return self._programs.compiled(lowered, call.name, given, _call_key(call, values))

    def _put(
        self, primitive: Any, values: Sequence[DescribedArray], params: Any
    ) -> list[DescribedArray]:
        """Handle `jax.device_put`, and other operations that lay out arrays."""
        targets = params["devices"]
        self.check_devices(targets)
        avals = _shapes(primitive, values, params)
        return [
            self._moved(value, aval, target)
            for value, aval, target in zip(values, avals, targets, strict=True)
        ]

    def _moved(self, value: DescribedArray, aval: Any, target: Any) -> DescribedArray:
        origin = Origin(lambda one: one, (value,))
        if target is None or not (isinstance(target, Sharding) or hasattr(target, "client")):
            return self.described(aval, value.sharding, committed=value.committed, origin=origin)
        sharding = target if isinstance(target, Sharding) else SingleDeviceSharding(target)
        if sharding.device_set and isinstance(sharding, NamedSharding):
            sharding.shard_shape(aval.shape)
        return self.described(aval, sharding, origin=origin)

    def _operation(
        self, primitive: Any, values: Sequence[DescribedArray], params: Any, call: JitCall | None
    ) -> Any:
        """Handle one of JAX's own operations: JAX gives the result's shape, the compiler its sharding."""
        several = primitive.multiple_results
        avals = _shapes(primitive, values, params)
        named = call.out_shardings if call is not None else (None,) * len(avals)
        self.check_devices(named)
        shardings = self._laid_out(primitive, params, values, avals, named)
        run = None if any(map(_names_a_mesh, avals)) else _on_the_cpu(primitive, params, call)
        results = [
            self.described(
                aval,
                sharding,
                origin=Origin(_nth(run, place if several else None), tuple(values))
                if run
                else None,
            )
            for place, (aval, sharding) in enumerate(zip(avals, shardings, strict=True))
        ]
        return results if several else results[0]

    def _laid_out(
        self,
        primitive: Any,
        params: Any,
        values: Sequence[DescribedArray],
        avals: Sequence[Any],
        named: Sequence[Any],
    ) -> Sequence[Any]:
        """Return the shardings of an operation's results; None for one on the first device by default."""
        chosen = [one.sharding for one in values if one.committed]
        if all(named) or (not chosen and primitive.name != "sharding_constraint"):
            return named
        single = all(len(one.device_set) == 1 for one in chosen) and len({*chosen}) == 1
        if single and primitive.name != "sharding_constraint":
            return [chosen[0]] * len(avals)
        structs = [_struct(one) for one in values]
        key: Any = (primitive, tuple(sorted(params.items())), tuple(map(_key, structs)))
        try:
            if key in self._shardings:
                return self._shardings[key]
        except TypeError:
            # A parameter that cannot be compared: compile each time.
            key = None
        with jax.default_device(self._devices.all[0]):
            lowered = jax.jit(functools.partial(_bound, primitive, params)).lower(*structs)
            found = self._programs.out_shardings(lowered)
        if key is not None:
            self._shardings[key] = found
        return found


def _bound(primitive: Any, params: Any, *args: Any) -> Any:
    return primitive.bind(*args, **params)


def _on_the_cpu(primitive: Any, params: Any, call: JitCall | None) -> Callable[..., Any] | None:
    """Return a function that computes an operation's value; None if it names the pod's devices."""
    if primitive.name == "sharding_constraint":
        return lambda value: value
    if call is not None and (any(call.in_shardings) or any(call.out_shardings)):
        return None
    return functools.partial(_bound, primitive, params)


def _names_a_mesh(aval: Any) -> bool:
    """Return whether a type includes a sharding, as with axes of type Explicit."""
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and not sharding.mesh.empty and not sharding.mesh.are_all_axes_auto


def _nth(run: Callable[..., Any], place: int | None) -> Callable[..., Any]:
    if place is None:
        return run
    return lambda *args: run(*args)[place]


def _called(call: JitCall) -> Callable[..., Any]:
    """Return a function with the same name and the same behavior."""
    run = jaxpr_as_fun(call.jaxpr)

    def called(*args: Any) -> Any:
        return run(*args)

    called.__name__ = called.__qualname__ = call.name
    return called


def _struct(value: DescribedArray) -> Any:
    """Return the shape of an argument, with its sharding if that was chosen explicitly."""
    return jax.ShapeDtypeStruct(
        value.shape,
        value.dtype,
        sharding=value.sharding if value.committed else None,
        weak_type=getattr(value.aval, "weak_type", False),
    )


def _call_key(call: JitCall, values: Sequence[DescribedArray]) -> Any:
    """Return a key that is equal for equal calls of one function, on any line: JAX traces such calls once."""
    named = (call.in_shardings, call.out_shardings, call.donated)
    options = tuple(sorted(call.compiler_options.items()))
    return call.jaxpr, call.name, named, options, tuple(_key(_struct(one)) for one in values)


def _key(struct: Any) -> tuple[Any, ...]:
    return struct.shape, struct.dtype, struct.sharding, struct.weak_type


def _shapes(primitive: Any, values: Sequence[DescribedArray], params: Any) -> list[Any]:
    structs = [_struct(one) for one in values]
    found = jax.eval_shape(functools.partial(_bound, primitive, params), *structs)
    return [jax.typeof(one) for one in jax.tree.leaves(found)]


def _check_donated_once(call: JitCall, values: Sequence[DescribedArray]) -> None:
    for place, donated in enumerate(call.donated):
        same = [n for n, one in enumerate(values) if one is values[place]]
        if donated and len(same) > 1:
            places = ", ".join(map(str, same))
            raise RehearsalError(
                f"{call.name} is given {values[place]!r} {len(same)} times, as its arrays {places}, and takes it "
                f"as its own (donate_argnums), in {user_line()}. A device refuses that: give it "
                "a copy."
            )


def _chosen(call: JitCall, values: Sequence[DescribedArray]) -> bool:
    """Return whether a program's devices were chosen; if not, JAX moves its results where they are needed."""
    return any(one.committed for one in values) or any(call.in_shardings) or any(call.out_shardings)


def _taken(value: DescribedArray, call: JitCall) -> bool:
    """Return whether a result can reuse the array's memory; if not, JAX leaves the array, and warns."""
    return any(
        aval.shape == value.shape and aval.dtype == value.dtype for aval in call.jaxpr.out_avals
    )
