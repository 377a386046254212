"""Arrays of a rehearsal: a shape, a type and a sharding, and a value only if the program itself defines it.

An error names the user's line that was running (`user_line`), for example a line that needs a missing value.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import FrameType, TracebackType
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.sharding import Sharding, SingleDeviceSharding

from nbdist.errors import RehearsalError, ValueNeeded
from nbdist.program.hlo import is_users

MOST_COMPUTED = 1 << 16
"""Most elements of an array whose value is computed; larger arrays, and arrays made from them, have no value."""

MOST_DEEP = 200
"""The longest chain of operations that is computed when a value is needed."""


class Origin(NamedTuple):
    """How a value can be computed: an operation on JAX arrays, and its operands, values or `DescribedArray`s."""

    compute: Callable[..., Any]
    arguments: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of an array on one device, with the attributes of `jax.Shard`.

    Attributes:
      device: That device.
      index: Which part of the array.
      replica_id: The number of earlier devices with the same part.
      data: The part.
    """

    device: Any
    index: tuple[slice, ...]
    replica_id: int
    data: DescribedArray


class DescribedArray(jax.core.Tracer):
    """An array of a rehearsal: for JAX a tracer, as inside `jax.jit`, but with a sharding.

    Args:
      trace: The rehearsal's.
      aval: Its shape and type, as `jax.typeof` gives them.
      sharding: None if not known, for example for the results of a program that does not fit.
      committed: Whether its devices were chosen; if not, JAX moves it to where it is needed.
      origin: How its value can be computed; None for the result of a program.
      source: A text that names what made it.
    """

    __slots__ = ("_committed", "_deleted", "_depth", "_given", "_sharding", "_source", "origin")

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
        of = [one for one in (origin or Origin(id)).arguments if isinstance(one, DescribedArray)]
        depth = 1 + max((one._depth for one in of), default=0)
        small = all(size <= MOST_COMPUTED for size in (aval.size, *(one.size for one in of)))
        known = origin is not None and depth <= MOST_DEEP and small
        self.origin = origin if known else None
        self._depth: int = depth if known else 0
        # The program that returns the value, or one of the programs that it was computed from.
        self._given: str = source or next((one._given for one in of if known and one._given), "")

    # -- what is known of an array -----------------------------------------------------------------

    @property
    def sharding(self) -> Sharding:
        """Return the sharding; raise RehearsalError if it is not known."""
        if self._sharding is None:
            raise RehearsalError(
                f"How {self} lies on the devices is not known: it is a result of {self._source}, which does not "
                "fit. Give that function out_shardings, or let it fit first."
            )
        return self._sharding

    @property
    def committed(self) -> bool:
        """Return whether its devices were chosen."""
        return self._committed

    @property
    def device(self) -> Any:
        """Return its device, or its sharding if it is on several."""
        devices = self.sharding.device_set
        return next(iter(devices)) if len(devices) == 1 else self.sharding

    def devices(self) -> set[Any]:
        """Return the devices on which the array lies."""
        return set(self.sharding.device_set)

    @property
    def is_fully_addressable(self) -> bool:
        """Return whether the first host has all of it."""
        return bool(self.sharding.is_fully_addressable)

    @property
    def is_fully_replicated(self) -> bool:
        """Return whether each device has all of it."""
        return bool(self.sharding.is_fully_replicated)

    @property
    def addressable_shards(self) -> list[Shard]:
        """Return the parts on the devices of the first host."""
        return [one for one in self.global_shards if one.device.process_index == 0]

    @property
    def global_shards(self) -> list[Shard]:
        """Return the parts on all devices."""
        found = []
        places: dict[Any, int] = {}
        for device, index in self.sharding.devices_indices_map(self.shape).items():
            place = tuple((part.start, part.stop) for part in index)
            found.append(Shard(device, index, places.get(place, 0), self._part(device)))
            places[place] = places.get(place, 0) + 1
        return found

    def addressable_data(self, index: int) -> DescribedArray:
        """Return the part on one device of the first host."""
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
        """Return whether it was donated."""
        return bool(self._deleted)

    def delete(self) -> None:
        """Make it unusable."""
        self._deleted = f"it was deleted in {user_line()}"

    def donated_to(self, program: str) -> None:
        """Make it unusable, as an array that was donated to `program`."""
        self._deleted = f"it was donated to {program} in {user_line()}"

    def check_alive(self) -> None:
        """Raise RehearsalError, where JAX raises RuntimeError, for an array that was deleted or donated."""
        if self._deleted:
            raise RehearsalError(
                f"The array {self._described()} no longer exists: {self._deleted}. It is used in "
                f"{user_line()}."
            )

    def block_until_ready(self) -> DescribedArray:
        """Compute nothing."""
        self.check_alive()
        return self

    def copy_to_host_async(self) -> None:
        """Copy nothing."""
        self.check_alive()

    # -- what needs a value ------------------------------------------------------------------------

    def value(self, use: str) -> np.ndarray[Any, Any]:
        """Return its value, if it follows from the program's own values or the user gave a stand-in.

        Args:
          use: What the value is needed for, such as `float()`.

        Raises:
          ValueNeeded: The value is not known.
        """
        self.check_alive()
        value = _computed(self)
        if value is None:
            raise ValueNeeded(self._needed(use))
        return value

    def _needed(self, use: str) -> str:
        given, comes = self._given, "" if self._source else "comes of what "
        source = f", which {comes}{given} would give," if given else ""
        why = (
            "A rehearsal compiles programs and runs none, so there is no value."
            if given
            else "In a rehearsal what comes of so many elements or operations is not computed."
        )
        return (
            f"{use} needs the value of {self._described()}{source} in {user_line()}. {why} Give one that stands "
            "in for all such values with --value 1.0, or leave this line out."
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
        """Return its one value."""
        return self.value("item()").item(*args)

    def tolist(self) -> Any:
        """Return its values."""
        return self.value("tolist()").tolist()

    def tobytes(self, order: Any = "C") -> bytes:
        """Return its values."""
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


def _computed(described: DescribedArray) -> np.ndarray[Any, Any] | None:
    with jax.core.eval_context():
        found = _evaluated(described, {}) if _is_plain(described) else None
    return None if found is None else np.asarray(found)


def _evaluated(value: Any, found: dict[int, Any]) -> Any:
    """Return a JAX array on the CPU, or a NumPy array; None if something it depends on has no value."""
    if not isinstance(value, DescribedArray):
        return value
    if id(value) not in found:
        result, stand_in = None, value._trace.stand_in
        if value.origin is not None:
            arguments = [_evaluated(one, found) for one in value.origin.arguments]
            if all(one is not None for one in arguments):
                result = value.origin.compute(*arguments)
        elif stand_in is not None and _is_plain(value):
            result = np.full(value.shape, stand_in, value.dtype)
        found[id(value)] = result
    return found[id(value)]


def _is_plain(value: DescribedArray) -> bool:
    """Return whether an array is small and numeric."""
    extended = jax.dtypes.issubdtype(value.dtype, jax.dtypes.extended)
    return value.size <= MOST_COMPUTED and not extended


def user_line() -> str:
    """Return the innermost running line of the user (`is_users`), such as `line 3 of the cell: float(loss)`.

    The text of the line is left out if it cannot be read; if no line is the user's, returns `the program`.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and not is_users(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return "the program"
    file = frame.f_code.co_filename
    text = linecache.getline(file, frame.f_lineno).strip()
    cell = "ipykernel" in file or file.startswith("<ipython-input")
    return f"line {frame.f_lineno} of {'the cell' if cell else file}{f': {text}' if text else ''}"


def cut_to_users(trace: TracebackType | None) -> None:
    """Remove all frames below the user's innermost line from a traceback."""
    last = None
    while trace is not None:
        if is_users(trace.tb_frame.f_code.co_filename):
            last = trace
        trace = trace.tb_next
    if last is not None:
        last.tb_next = None
