"""The trace of a rehearsal: a jitted function is compiled, and any other operation gives a shape."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.extend.core import jaxpr_as_fun
from jax.sharding import NamedSharding, Sharding, SingleDeviceSharding

from nbdist.errors import RehearsalError
from nbdist.rehearsal.devices import Devices, JitCall, jit_call
from nbdist.rehearsal.programs import CompiledProgram, Programs
from nbdist.rehearsal.values import DescribedArray, Origin, user_line

MOST_KEPT = 1 << 16
"""In bytes; larger NumPy arrays are not kept for their values."""


class RehearsalTrace(jax.core.Trace):
    """Receives each operation before it runs, and runs none.

    Args:
      devices: The pod's devices.
      programs: Compiles for the pod.
      stand_in: The value that stands for values that nothing computes; None for none.
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
        """Call the function itself: code that asks for a derivative has a trace of its own."""
        return fun.call_wrapped(*tracers)

    def process_custom_vjp_call(
        self, primitive: Any, fun: Any, fwd: Any, bwd: Any, tracers: Sequence[Any], /, **_: Any
    ) -> Any:
        """Call the function itself, as `process_custom_jvp_call`."""
        return fun.call_wrapped(*tracers)

    def stage_value(self, val: Any) -> DescribedArray:
        """Return a number, a NumPy array or an array that JAX has computed as an array of the rehearsal."""
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
        """Return an array, on the first device where no sharding is given."""
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
        """Handle one of JAX's own operations: JAX says which shape results, and the compiler how it lies."""
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
            # A parameter that cannot be compared: compiled each time.
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
    """Return a function that computes an operation's value; None where it names devices, which are not there."""
    if primitive.name == "sharding_constraint":
        return lambda value: value
    if call is not None and (any(call.in_shardings) or any(call.out_shardings)):
        return None
    return functools.partial(_bound, primitive, params)


def _names_a_mesh(aval: Any) -> bool:
    """Return whether a type says how an array lies, as with axes of type Explicit."""
    sharding = getattr(aval, "sharding", None)
    return sharding is not None and not sharding.mesh.empty and not sharding.mesh.are_all_axes_auto


def _nth(run: Callable[..., Any], place: int | None) -> Callable[..., Any]:
    if place is None:
        return run
    return lambda *args: run(*args)[place]


def _called(call: JitCall) -> Callable[..., Any]:
    """Return a function of the same name that does the same."""
    run = jaxpr_as_fun(call.jaxpr)

    def called(*args: Any) -> Any:
        return run(*args)

    called.__name__ = called.__qualname__ = call.name
    return called


def _struct(value: DescribedArray) -> Any:
    """Return the shape of an argument, with its sharding if somebody chose it."""
    return jax.ShapeDtypeStruct(
        value.shape,
        value.dtype,
        sharding=value.sharding if value.committed else None,
        weak_type=getattr(value.aval, "weak_type", False),
    )


def _call_key(call: JitCall, values: Sequence[DescribedArray]) -> Any:
    """Return a key, equal for equal calls of one function on any line: JAX traces it once for them."""
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
    """Return whether somebody chose a program's devices; if not, its results are moved where they are needed."""
    return any(one.committed for one in values) or any(call.in_shardings) or any(call.out_shardings)


def _taken(value: DescribedArray, call: JitCall) -> bool:
    """Return whether a result can reuse the array's memory; if not, JAX leaves the array, and warns."""
    return any(
        aval.shape == value.shape and aval.dtype == value.dtype for aval in call.jaxpr.out_avals
    )
