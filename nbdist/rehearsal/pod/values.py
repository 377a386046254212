"""Arrays of a rehearsal: a shape, a type and a sharding, and a value only where the program itself says it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

from nbdist.errors import RehearsalError, ValueNeeded
from nbdist.rehearsal.pod.devices import user_line

MOST_COMPUTED = 1 << 16
"""Elements; what is larger, or comes of something larger, is not computed to be looked at."""

MOST_DEEP = 200
"""The most operations on each other that are computed where a value is needed."""


class Origin:
    """How a value can be computed: by an operation, of other values.

    Args:
      compute: The operation, of JAX's arrays.
      arguments: What it takes: `DescribedArray`, or values.
    """

    def __init__(self, compute: Callable[..., Any], arguments: tuple[Any, ...] = ()) -> None:
        self.compute = compute
        self.arguments = arguments
        self.depth = 1 + max((_depth(one) for one in arguments), default=0)


def _is_small(value: Any) -> bool:
    return not isinstance(value, DescribedArray) or value.size <= MOST_COMPUTED


def _depth(value: Any) -> int:
    origin = value.origin if isinstance(value, DescribedArray) else None
    return origin.depth if origin is not None else 0


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of an array on one device, as `jax.Shard` names it.

    Attributes:
      device: That device.
      index: Which part of the array.
      replica_id: How many devices before it have the same part.
      data: The part.
    """

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: DescribedArray


class DescribedArray(jax.core.Tracer):
    """An array of a rehearsal. To JAX it is a tracer, as inside `jax.jit`, that knows how it is laid out.

    Args:
      trace: The rehearsal's.
      aval: Its shape and type, as `jax.typeof` gives them.
      sharding: None where it is not known, as of the results of a program that does not fit.
      committed: Whether its devices were chosen; else JAX moves it where it is needed.
      origin: How it can be computed; None for what a program gives.
      source: What it comes from, in words.
    """

    __slots__ = (
        "_committed",
        "_deleted",
        "_sharding",
        "_source",
        "origin",
    )

    def __init__(
        self,
        trace: Any,
        aval: Any,
        *,
        sharding: Sharding | None,
        committed: bool,
        origin: Origin | None = None,
        source: str = "",
    ) -> None:
        super().__init__(trace, aval)
        self._sharding = sharding
        self._committed = committed
        self._deleted = ""
        self._source = source
        small = aval.size <= MOST_COMPUTED and all(
            map(_is_small, origin.arguments if origin else ())
        )
        self.origin = origin if origin is not None and origin.depth <= MOST_DEEP and small else None

    # -- what is known of an array -----------------------------------------------------------------

    @property
    def sharding(self) -> Sharding:
        """Raises RehearsalError where it is not known."""
        if self._sharding is None:
            raise RehearsalError(
                f"How {self} lies on the devices is not known: it is a result of {self._source}, which does not "
                "fit. Give that function out_shardings, or let it fit first."
            )
        return self._sharding

    @property
    def committed(self) -> bool:
        """Whether its devices were chosen."""
        return self._committed

    @property
    def device(self) -> Any:
        """Its device, or its sharding where it has several."""
        devices = self.sharding.device_set
        return next(iter(devices)) if len(devices) == 1 else self.sharding

    def devices(self) -> set[Any]:
        """Return the devices on which the array lies."""
        return set(self.sharding.device_set)

    @property
    def is_fully_addressable(self) -> bool:
        """Whether the first host has all of it."""
        return bool(self.sharding.is_fully_addressable)

    @property
    def is_fully_replicated(self) -> bool:
        """Whether each device has all of it."""
        return bool(self.sharding.is_fully_replicated)

    @property
    def addressable_shards(self) -> list[Shard]:
        """The parts on the devices of the first host."""
        return [one for one in self.global_shards if one.device.process_index == 0]

    @property
    def global_shards(self) -> list[Shard]:
        """The parts on all devices."""
        found = []
        places: dict[Any, int] = {}
        for device, index in self.sharding.devices_indices_map(self.shape).items():
            place = tuple((part.start, part.stop) for part in index)
            found.append(Shard(device, index, places.get(place, 0), self._part(device)))
            places[place] = places.get(place, 0) + 1
        return found

    def addressable_data(self, index: int) -> DescribedArray:
        """The part on one device of the first host."""
        return self.addressable_shards[index].data

    def _part(self, device: Any) -> DescribedArray:
        struct = jax.ShapeDtypeStruct(self.sharding.shard_shape(self.shape), self.dtype)
        return DescribedArray(
            self._trace,
            jax.typeof(struct),
            sharding=SingleDeviceSharding(device),
            committed=True,
            source=self._source,
        )

    def is_deleted(self) -> bool:
        """Whether it was donated."""
        return bool(self._deleted)

    def delete(self) -> None:
        """Makes it unusable."""
        self._deleted = f"it was deleted in {user_line() or 'the program'}"

    def donated_to(self, program: str) -> None:
        """Makes it unusable, as an array that was donated is."""
        self._deleted = f"it was donated to {program} in {user_line() or 'the program'}"

    def check_alive(self) -> None:
        """Raises RehearsalError, where JAX raises RuntimeError, for an array that was deleted or donated."""
        if self._deleted:
            raise RehearsalError(
                f"The array {self._described()} no longer exists: {self._deleted}. It is used in "
                f"{user_line() or 'the program'}."
            )

    def block_until_ready(self) -> DescribedArray:
        """Nothing is computed."""
        self.check_alive()
        return self

    def copy_to_host_async(self) -> None:
        """Nothing is copied."""
        self.check_alive()

    # -- what needs a value ------------------------------------------------------------------------

    def value(self, use: str) -> np.ndarray[Any, Any]:
        """Its value, where the program's own values say it or the user gave a stand-in.

        Args:
          use: What it is needed for, such as `float()`.

        Raises:
          ValueNeeded: Nothing says it.
        """
        self.check_alive()
        value = _computed(self)
        if value is None:
            raise ValueNeeded(self._needed(use))
        return value

    def _needed(self, use: str) -> str:
        line = user_line()
        where = f" in {line}" if line is not None else ""
        given = _source(self)
        if not given:
            source = ""
        elif given == self._source:
            source = f", which {given} would give,"
        else:
            source = f", which comes of what {given} would give,"
        why = (
            "A rehearsal compiles programs and runs none, so there is no value."
            if given
            else "In a rehearsal what comes of so many elements or operations is not computed."
        )
        return (
            f"{use} needs the value of {self._described()}{source}{where}. {why} Give one that stands in for all "
            "such values with --value 1.0, or leave this line out."
        )

    def _described(self) -> str:
        return str(self.aval.str_short())

    def __array__(self, *args: Any, **kwargs: Any) -> np.ndarray[Any, Any]:
        return np.asarray(
            self.value("numpy"), *args, **{k: v for k, v in kwargs.items() if v is not None}
        )

    def __bool__(self) -> bool:
        return bool(self.value("if, or bool(),"))

    def __int__(self) -> int:
        return int(self.value("int()"))

    def __float__(self) -> float:
        return float(self.value("float()"))

    def __complex__(self) -> complex:
        return complex(self.value("complex()"))

    def __index__(self) -> int:
        return self.value("an index").__index__()

    def item(self, *args: Any) -> Any:
        """Its one value."""
        return self.value("item()").item(*args)

    def tolist(self) -> Any:
        """Its values."""
        return self.value("tolist()").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """Its values."""
        return self.value("tobytes()").tobytes(order)

    def __reduce__(self) -> Any:
        raise ValueNeeded(self._needed("pickle"))

    def __iter__(self) -> Iterator[Any]:
        return (self[place] for place in range(len(self)))

    # -- as text -----------------------------------------------------------------------------------

    def __repr__(self) -> str:
        spec = getattr(self._sharding, "spec", None)
        laid_out = f" {spec}".replace("PartitionSpec", "P") if spec is not None else ""
        return f"{self._described()}{laid_out}"

    def __str__(self) -> str:
        value = _computed(self) if not self._deleted else None
        return str(value) if value is not None else f"<{self!r} without a value>"

    def __format__(self, spec: str) -> str:
        value = _computed(self) if self.ndim == 0 and not self._deleted else None
        return format(value.item(), spec) if value is not None else str(self)


def _source(value: Any) -> str:
    """The program that gives a value, or one of those that it comes of; empty where none does."""
    if not isinstance(value, DescribedArray) or value._source or value.origin is None:
        return value._source if isinstance(value, DescribedArray) else ""
    return next(filter(None, map(_source, value.origin.arguments)), "")


def _computed(described: DescribedArray) -> np.ndarray[Any, Any] | None:
    if described.size > MOST_COMPUTED or jax.dtypes.issubdtype(
        described.dtype, jax.dtypes.extended
    ):
        return None
    with jax.core.eval_context():
        found = _evaluated(described, {})
    return None if found is None else np.asarray(found)


def _evaluated(value: Any, found: dict[int, Any]) -> Any:
    """Of JAX on the CPU, or of NumPy; None where something in it has no value."""
    if not isinstance(value, DescribedArray):
        return value
    if id(value) in found:
        return found[id(value)]
    if value.origin is not None:
        arguments = [_evaluated(one, found) for one in value.origin.arguments]
        known = all(one is not None for one in arguments)
        result = value.origin.compute(*arguments) if known else None
    else:
        result = _standing_in(value)
    found[id(value)] = result
    return result


def _standing_in(value: DescribedArray) -> Any:
    stand_in = value._trace.stand_in
    if stand_in is None or value.size > MOST_COMPUTED:
        return None
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended):
        return None
    return np.full(value.shape, stand_in, value.dtype)
