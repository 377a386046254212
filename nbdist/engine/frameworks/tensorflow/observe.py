"""TensorFlow's devices, variables and strategy as reports have them, and its arrays on their way to the kernel.

`TensorFlowObserver` and the descriptions for reports run no operation, start no context and read no device memory:
they read attributes of Python objects only, and keep no variable alive. `TensorFlowInspection` tells where the
copies of a variable lie. `offer_array` gives its bytes to the kernel.
"""

from __future__ import annotations

import math
import sys
import weakref
from dataclasses import dataclass
from typing import Any

from nbdist.contract.calls.inspection import ArraysFound
from nbdist.contract.snapshot import (
    Array,
    Device,
    Distribution,
    Mesh,
    NamedSharding,
    Sharding,
    SingleDevice,
)
from nbdist.engine.frameworks import array_of
from nbdist.engine.frameworks.interfaces import Inspection
from nbdist.engine.frameworks.tensorflow.strategies import (
    AXIS,
    NOTED,
    REMEMBERED,
    Replicas,
    key_of,
    replicas_of,
)
from nbdist.engine.probe.observer import Observer
from nbdist.engine.values.arrays import OfferedArray, whole
from nbdist.engine.values.incoming import Place
from nbdist.errors import ArrayError
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, eq=False)
class _Entry:
    array: weakref.ref[Any]
    mesh: str
    described: Array


def describe(array: Any, path: str, replicas: Replicas, process_id: int) -> Array | None:
    """Return the description of a variable or tensor for a report.

    The result is None if its shape is not known, its elements have no size (strings, handles), or it lies on a
    device that is not shown.
    """
    shape = array.shape
    if shape is None or not shape.is_fully_defined():
        return None
    itemsize = array.dtype.size
    if array.dtype.name in ("string", "resource", "variant") or not itemsize:
        return None
    sizes = tuple(int(size) for size in shape)
    sharding = _sharding(array, len(sizes), replicas, process_id)
    if sharding is None:
        return None
    return Array(
        path=path,
        shape=sizes,
        dtype=array.dtype.name,
        nbytes=math.prod(sizes) * itemsize,
        sharding=sharding,
    )


def _sharding(array: Any, dimensions: int, replicas: Replicas, process_id: int) -> Sharding | None:
    values = replica_values(array)
    if values is None:
        key = key_of(array.device, replicas.platform, process_id)
        return None if key is None else SingleDevice(device=key, memory_kind=None)
    if len(values) * replicas.workers != replicas.count:
        return None  # of an earlier strategy
    return NamedSharding(
        mesh=replicas.mesh.id,
        spec=((),) * dimensions,
        # Each replica has a value of its own until the variable is read, such as the counts of a metric.
        unreduced=(AXIS,) if array.synchronization.name == "ON_READ" else (),
        memory_kind=None,
    )


def replica_values(array: Any) -> tuple[Any, ...] | None:
    """Return this process's copies of a distributed variable, one for each of its devices; None for a plain one.

    Private API: `_values` of `tensorflow.python.distribute.values.DistributedVariable` (TensorFlow 2.21); the
    public `strategy.experimental_local_results` needs the strategy under which the variable was made. If it is
    missing, the variable is described as a plain variable on its first device.
    """
    values = getattr(array, "_values", None)
    return values if isinstance(values, tuple) and values else None


class TensorFlowInspection(Inspection):
    """Answers about variables of TensorFlow."""

    def explain(self, value: Any, expression: str, process_id: int) -> ArraysFound:
        """Return where the copies of one variable lie.

        Raises:
          ArrayError: The value is no variable, or belongs to no strategy in force.
        """
        import tensorflow as tf

        value, strategy = array_of(value), REMEMBERED.get()
        replicas = None if strategy is None else replicas_of(strategy, process_id)
        if not isinstance(value, tf.Variable):
            kind = type(value).__name__
            raise ArrayError(f"{expression!r} is a {kind}, not a tf.Variable; it has no copies.")
        if replicas is None:
            raise ArrayError(f"No strategy is in force that {expression!r} could belong to.")
        described = describe(value, expression, replicas, process_id)
        if described is None:
            raise ArrayError(f"{expression!r} lies on no device of the strategy in force.")
        return ArraysFound(expression=expression, arrays=(described,), meshes=(replicas.mesh,))


def offer_array(value: Any, expression: str) -> OfferedArray | None:
    """Return the offer of a variable or tensor of this process, whole; None for anything else.

    For a mirrored variable, the copy of this process's first replica is read. Where the copies of a variable are
    combined when the variable is read, all workers must read it together.

    Raises:
      ArrayError: The value holds no numbers, such as a symbolic tensor or one of strings.
    """
    import numpy
    import tensorflow as tf

    if not isinstance(value, tf.Variable | tf.Tensor):
        return None
    values = replica_values(value)
    if values is not None and value.synchronization.name != "ON_READ":
        value = values[0]
    try:
        array = numpy.ascontiguousarray(value.numpy())
    except (AttributeError, NotImplementedError) as error:
        raise ArrayError(f"{expression!r} is symbolic: it has no value here.") from error
    if array.dtype == object:
        raise ArrayError(f"{expression!r} holds strings or objects; pull plain data out of it.")
    return whole(array.reshape(value.shape))


def placed(sharding: Any, expression: str) -> Place:
    """Refuse: TensorFlow has no arrays that are made of pieces on several processes.

    Raises:
      ArrayError: Always.
    """
    raise ArrayError(
        f"{option('sharding', expression)} makes JAX arrays, and this session computes with TensorFlow. Push the "
        f"array whole, without {option('sharding')}."
    )


def remember(strategy: Any) -> None:
    """Note the strategy that is in force from now on; called on the main thread."""
    REMEMBERED.note(strategy)


class TensorFlowObserver(Observer):
    """An observer of TensorFlow's devices, variables and strategy, for repeated looks.

    Args:
      main_thread: `threading.Thread.ident` of the thread that runs cells.
      process_id: The number of this process.
    """

    def __init__(self, main_thread: int, process_id: int) -> None:
        self._process_id = process_id
        self._replicas: Replicas | None = None
        self._before: dict[str, _Entry] = {}
        self._now: dict[str, _Entry] = {}
        self._unlisted: dict[int, _Entry] = {}

    def begin(self) -> bool:
        """Start a look; return False if no strategy is in force, as with TensorFlow for `tf.data` alone."""
        strategy = REMEMBERED.get()
        if strategy is None:
            self._replicas = None
        elif self._replicas is None or self._replicas.strategy() is not strategy:
            self._replicas = replicas_of(strategy, self._process_id)
        if self._replicas is None:
            return False
        self._before, self._now = self._now, {}
        self._unlisted = {i: one for i, one in self._unlisted.items() if one.array() is not None}
        return True

    def array_classes(self) -> tuple[type, ...]:
        """Return `tf.Variable`, which is the base class of mirrored variables, too."""
        module = sys.modules.get("tensorflow.python.ops.variables")
        cls = getattr(module, "Variable", None)
        return (cls,) if isinstance(cls, type) else ()

    def add(self, path: str, array: Any, *, lent: bool = False) -> bool:
        """List a variable under a path; return False if it cannot be described."""
        entry = self._entry(self._before.get(path), array, path)
        if entry is None:
            return False
        self._now[path] = entry
        return True

    def keep(self, path: str, shape: tuple[int, ...]) -> bool:
        """List again what the last look listed under a path with this shape; return False if it listed nothing."""
        entry = self._before.get(path)
        if entry is None or entry.described.shape != shape:
            return False
        self._now[path] = entry
        return True

    def describe(self, array: Any) -> Array | None:
        """Return one variable with an empty path, without listing it; None if it cannot be described."""
        entry = self._entry(self._unlisted.get(id(array)), array, "")
        if entry is None:
            return None
        self._unlisted[id(array)] = entry
        return entry.described

    def _entry(self, before: _Entry | None, array: Any, path: str) -> _Entry | None:
        """Return the description of an array; the same as in the last look where it has not changed."""
        if self._replicas is None:
            return None
        mesh = self._replicas.mesh.id
        if before is not None and before.array() is array and before.mesh == mesh:
            return before
        described = describe(array, path, self._replicas, self._process_id)
        return _Entry(weakref.ref(array), mesh, described) if described is not None else None

    def devices(self) -> tuple[Device, ...]:
        """Return the devices of this process that have replicas."""
        if self._replicas is None:
            return ()
        own = f"{self._process_id}:"
        platform = self._replicas.platform
        return tuple(
            Device(
                key=key,
                process_id=self._process_id,
                id=int(key.removeprefix(own)),
                platform=platform,
                kind=platform,
                coords=None,
                memory=None,
                live_bytes=None,
            )
            for key in self._replicas.mesh.devices
            if key.startswith(own)
        )

    def meshes(self) -> tuple[Mesh, ...]:
        """Return one mesh, of all replicas; none without a strategy."""
        return () if self._replicas is None else (self._replicas.mesh,)

    def arrays(self) -> tuple[Array, ...]:
        """Return the variables of this look."""
        return tuple(entry.described for entry in self._now.values())

    def distributions(self) -> tuple[Distribution, ...]:
        """Return the strategy in force, with the batch it was last given."""
        if self._replicas is None:
            return ()
        given = NOTED.last(self._replicas.strategy())
        strategy = Distribution(
            noun="strategy",
            kind=self._replicas.kind,
            mesh=self._replicas.mesh.id,
            batch_axis=AXIS,
            auto_shard=None if given is None else given.auto_shard,
            replicas=self._replicas.count,
            global_batch=None if given is None else given.size,
            replica_batches=() if given is None else tuple(given.of_replicas),
        )
        return (strategy,)

    def note(self) -> None:
        """Hook in, so that strategies and batches are noted when they are made."""
        self.hook()

    def hook(self) -> None:
        """Note from now on strategies that users make themselves, and batches given to strategies."""
        REMEMBERED.hook()
        NOTED.hook()

    def unhook(self) -> None:
        """Remove the hooks."""
        REMEMBERED.unhook()
        NOTED.unhook()
