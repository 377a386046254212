"""Devices of a pod that does not exist here, and the private parts of JAX by which JAX accepts them.

libtpu's compiler describes the devices, and JAX lays meshes over them; `Laid` is the sharding of an array over
them as plain data. `DescribedBackend` replaces JAX's own backend. Every private part of JAX that a rehearsal needs
has one function here.

Source of the private parts: read in JAX 0.10.2 and 0.12.0.1; `check_jax` refuses versions in which one is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jax.experimental import mesh_utils, topologies
from jax.extend.backend import get_backend, register_backend_factory
from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec, SingleDeviceSharding

from nbdist.contract import snapshot
from nbdist.contract.program import MeshAxes
from nbdist.contract.wire import Data
from nbdist.errors import OptionError, RehearsalError
from nbdist.program.axes import mesh_axes
from nbdist.rehearsal.mesh import axes_over, check_slices
from nbdist.rehearsal.topology import Topology, topology_text
from nbdist.view.program import MESH

_WHOLE_CHIP = {"v4": "megacore"}
"""Configurations by chip: without one, libtpu gives a device for each core, and JAX's meshes take one a chip."""


class Devices:
    """Devices of a topology.

    Args:
      topology: The topology.
      all: The devices, in the order of `jax.devices()`; `by_id` has them by their ids.
    """

    def __init__(self, topology: Topology, all: list[Any]) -> None:
        self.topology = topology
        self.all = all
        self._each = frozenset(all)
        self.by_id = {device.id: device for device in all}

    def mesh(self, axes: Any) -> Mesh:
        """Return a mesh over all devices; neighbours on it are neighbours on the pod where that is possible.

        Args:
          axes: The axes, as `nbdist.rehearsal.mesh.read_axes` reads them.

        Raises:
          OptionError: The mesh does not take all devices; names meshes that would.
        """
        asked = axes_over(self.topology, axes)
        slices = check_slices(asked, self.topology.slices)
        within = [size // slices[name] for name, size in asked.items()]
        if self.topology.slices > 1:
            placed = mesh_utils.create_hybrid_device_mesh(
                within, list(slices.values()), self.all, allow_split_physical_axes=True
            )
        else:
            placed = mesh_utils.create_device_mesh(within, self.all, allow_split_physical_axes=True)
        return Mesh(placed, tuple(asked), axis_types=(AxisType.Auto,) * len(asked))

    def __contains__(self, device: Any) -> bool:
        """Return whether a device is one of these."""
        return device in self._each

    def __str__(self) -> str:
        """Return `v5e:16x16, 256 chips`."""
        return topology_text(self.topology)


def describe(topology: Topology) -> Devices:
    """Return the devices of a topology, as libtpu describes them; start no TPU, and no backend of JAX.

    Args:
      topology: The topology, with its chip.

    Raises:
      OptionError: The chip is not named.
      RehearsalError: libtpu does not know this topology, or is not there.
    """
    if topology.chip is None:
        raise OptionError(
            f"{topology} does not name a chip, and programs are compiled for one: write v5e:{topology}."
        )
    slices = {"num_slices": topology.slices} if topology.slices > 1 else {}
    whole = (
        {"chip_config_name": _WHOLE_CHIP[topology.chip.name]}
        if topology.chip.name in _WHOLE_CHIP
        else {}
    )
    try:
        described = topologies.get_topology_desc(
            platform="tpu", topology_name=topology.name, **slices, **whole
        )
    except (RuntimeError, jax.errors.JaxRuntimeError) as error:
        raise RehearsalError(f"libtpu cannot describe {topology}: {error}") from error
    return Devices(topology, list(described.devices))


_FIRST = 1000
"""Priority higher than that of every backend of JAX."""


class DescribedBackend:
    """Backend that answers JAX's questions for a pod, and passes all others on to the compiler's own client.

    That client has devices but no local devices, which a script may ask for.
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
        """Hide the class: JAX uses `isinstance` to ask whether a backend runs programs, and this one does not."""
        if name == "__class__":
            return type(object.__getattribute__(self, "_client"))
        return object.__getattribute__(self, name)

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the compiler's client."""
        return getattr(self._client, name)


def make_default(devices: Devices) -> None:
    """Make `jax.devices()` return the devices of the pod.

    Values needed while JAX traces, such as in `jax.ensure_compile_time_eval`, are computed on the CPU.
    """
    register_backend_factory(
        "tpu", lambda: DescribedBackend(devices), priority=_FIRST, fail_quietly=False
    )
    jax.config.update("jax_default_device", jax.devices("cpu")[0])


def has_described_backend() -> bool:
    """Return whether this is the process of a rehearsal; starts no backend of JAX."""
    return has_chosen_devices() and type(get_backend()) is DescribedBackend


TRIED = ("0.10.2", "0.12.0.1")
"""Versions of JAX with which the tests of `tests/rehearsal` have passed."""


@dataclass(frozen=True, slots=True)
class JitCall:
    """A call of a jitted function, as it arrives at a trace.

    Attributes:
      name: The function's name.
      jaxpr: Its operations, closed over its constants.
      in_shardings: One for each argument; None if the function names none.
      out_shardings: One for each result; likewise.
      donated: One for each argument.
      compiler_options: Options that the function was given.
      of_jax: Whether the function is JAX's own, like most of `jax.numpy` and `jax.random`.
    """

    name: str
    jaxpr: Any
    in_shardings: tuple[Any, ...]
    out_shardings: tuple[Any, ...]
    donated: tuple[bool, ...]
    compiler_options: dict[str, Any]
    of_jax: bool


class _Probe(jax.core.Trace):
    """Trace that keeps the arguments of one call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[JitCall | None] = []

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: Any, /) -> Any:
        """Return the arguments of the operation."""
        self.calls.append(jit_call(primitive, params))
        return list(args)


def check_jax() -> None:
    """Try the private parts of JAX that a rehearsal of cells and scripts needs; start its backends.

    Raises:
      RehearsalError: This version of JAX works differently; names it, and the versions that were tried.
    """
    probe = _Probe()
    try:
        has_chosen_devices()
        with made_current(probe):
            called = is_current(probe)
            jax.jit(lambda x: x)(np.float32(0))
        compiled_for(jax.jit(lambda x: x).lower(np.float32(0)))
        works = called and len(probe.calls) == 1 and probe.calls[0] is not None
        reason = "a call of a jitted function arrives otherwise"
    except (ImportError, AttributeError, KeyError, TypeError, ValueError) as error:
        works, reason = False, f"{type(error).__name__}: {error}"
    if not works:
        raise RehearsalError(
            f"Cells and scripts cannot be rehearsed with JAX {jax.__version__}, whose internals differ "
            f"({reason}). It was tried with JAX {' and '.join(TRIED)}. nbdist.rehearse(…).compile(…) needs none "
            "of them."
        )


@contextlib.contextmanager
def made_current(trace: Any) -> Iterator[None]:
    """Make a trace the current one while the block runs: it gets each operation that no other trace takes first.

    `jax.core.Trace` is public; making one the current trace is not.
    """
    from jax._src.core import set_current_trace

    with set_current_trace(trace):
        yield


def is_current(trace: Any) -> bool:
    """Return whether a trace is the current one, so that no function is being traced.

    `jax.core.get_opaque_trace_state` is public, but returns nothing to compare with a trace.
    """
    from jax._src.core import trace_ctx

    return trace_ctx.trace is trace


def jit_call(primitive: Any, params: Mapping[str, Any]) -> JitCall | None:
    """Return the call of a jitted function as a `JitCall`; None for any other operation.

    The primitive of `jax.jit` and the names of its parameters are private.
    """
    if primitive.name not in ("jit", "pjit"):
        return None
    jaxpr = params["jaxpr"]
    return JitCall(
        name=params["name"],
        jaxpr=jaxpr,
        in_shardings=_named(params["in_shardings"]),
        out_shardings=_named(params["out_shardings"]),
        donated=tuple(params["donated_invars"]),
        compiler_options=dict(params["compiler_options_kvs"]),
        of_jax=_of_jax(jaxpr),
    )


def compiled_for(lowered: Any) -> tuple[tuple[int, ...], tuple[tuple[str, Any], ...]]:
    """Return the part of a lowered function's compilation that its text does not show.

    Returns:
      The ids of its devices in the order of its partitions, and the compiler options it was given.
    """
    lowering = lowered._lowering
    devices = tuple(device.id for device in lowering._device_list or ())
    return devices, tuple(lowering._compiler_options_kvs)


def has_chosen_devices() -> bool:
    """Return whether JAX has started its backends in this process; a public way to ask would start them."""
    from jax._src.xla_bridge import backends_are_initialized

    return bool(backends_are_initialized())


def _named(shardings: Sequence[Any]) -> tuple[Any, ...]:
    """Return the shardings, with None in place of the private object for an unspecified one."""
    return tuple(one if isinstance(one, jax.sharding.Sharding) else None for one in shardings)


def _of_jax(jaxpr: Any) -> bool:
    filename = jaxpr.jaxpr.debug_info.func_filename
    return filename is not None and Path(filename).is_relative_to(Path(jax.__file__).parent)


class Laid(Data):
    """A sharding over the pod's devices as plain data.

    Attributes:
      sharding: The sharding, over `mesh` or on one device; its spec has the dimensions that somebody gave.
      mesh: The mesh; None on one device.
      types: Names of the types of the mesh's axes.
    """

    sharding: snapshot.Sharding
    mesh: MeshAxes | None = None
    types: tuple[str, ...] = ()


def laid(sharding: Any) -> Laid | None:
    """Return a sharding as plain data; None if it is missing, or neither over a mesh nor on one device."""
    if isinstance(sharding, NamedSharding):
        mesh = sharding.mesh
        if not isinstance(mesh, Mesh):
            return None  # an abstract one, which has no devices
        # Since JAX 0.10.2 the entries have a name, and a spec with unreduced axes refuses to be iterated itself.
        entries = getattr(sharding.spec, "partitions", sharding.spec)
        plain = snapshot.NamedSharding(
            mesh=MESH,
            spec=tuple(map(_axes, entries)),
            unreduced=tuple(sorted(getattr(sharding.spec, "unreduced", ()))),
            memory_kind=sharding.memory_kind,
        )
        types = tuple(one.name for one in mesh.axis_types)
        return Laid(sharding=plain, mesh=mesh_axes(mesh), types=types)
    if sharding is None or len(sharding.device_set) > 1:
        return None
    (device,) = sharding.device_set
    return Laid(
        sharding=snapshot.SingleDevice(device=device_key(device), memory_kind=sharding.memory_kind)
    )


def sharding_of(plain: Laid, devices: Devices) -> Any:
    """Return the sharding that plain data describes; no entry leaves a dimension to the compiler.

    Raises:
      KeyError: A device is not in the pod.
    """
    if plain.mesh is None or not isinstance(plain.sharding, snapshot.NamedSharding):
        assert isinstance(plain.sharding, snapshot.SingleDevice)
        number = int(plain.sharding.device.partition(":")[2])
        return SingleDeviceSharding(devices.by_id[number], memory_kind=plain.sharding.memory_kind)
    placed = np.array([devices.by_id[number] for number in plain.mesh.devices], dtype=object)
    types = tuple(AxisType[one] for one in plain.types)
    mesh = Mesh(placed.reshape(plain.mesh.shape), plain.mesh.names, axis_types=types)
    entries = [one[0] if len(one) == 1 else one or None for one in plain.sharding.spec]
    return NamedSharding(mesh, PartitionSpec(*entries), memory_kind=plain.sharding.memory_kind)


def device_key(device: Any) -> snapshot.DeviceKey:
    """Return the key of one of JAX's devices in a snapshot."""
    return f"{device.process_index}:{device.id}"


def _axes(entry: Any) -> tuple[str, ...]:
    if isinstance(entry, str):
        return (entry,)
    return tuple(map(str, entry)) if isinstance(entry, tuple) else ()
