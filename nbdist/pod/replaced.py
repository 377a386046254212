"""Public functions of JAX that put values on devices past any trace: given anew."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.sharding import NamedSharding, Sharding

from nbdist.errors import RehearsalError
from nbdist.pod.lines import user_line
from nbdist.pod.private import is_current
from nbdist.pod.trace import RehearsalTrace
from nbdist.pod.values import Described


class Replaced:
    """The functions, for the arrays of one rehearsal.

    Args:
      trace: The rehearsal's.
    """

    def __init__(self, trace: RehearsalTrace) -> None:
        self._trace = trace

    def install(self) -> None:
        """Puts them in the place of JAX's; `jax.distributed.initialize` connects nothing."""
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
    ) -> Described:
        """As JAX's; the function is called for one part, and only where the type is not given."""
        sharding = getattr(sharding, "sharding", sharding)
        if dtype is None:
            index = next(iter(sharding.addressable_devices_indices_map(tuple(shape)).values()))
            dtype = np.asarray(data_callback(index)).dtype
        return self._array(tuple(shape), dtype, sharding)

    def make_array_from_process_local_data(
        self, sharding: Any, local_data: Any, global_shape: Sequence[int] | None = None
    ) -> Any:
        """As JAX's, for what the first host has."""
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
    ) -> Described:
        """As JAX's."""
        return self._array(tuple(shape), dtype if dtype is not None else arrays[0].dtype, sharding)

    def initialize(self, *args: Any, **kwargs: Any) -> None:
        """One process rehearses for all."""

    def _outside(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """A function that JAX allows only where nothing is traced, and so where nothing but the rehearsal is."""

        @functools.wraps(function, updated=())
        def called(*args: Any, **kwargs: Any) -> Any:
            if not is_current(self._trace):
                return function(*args, **kwargs)
            with jax.core.eval_context():
                return function(*args, **kwargs)

        return called

    def _array(self, shape: tuple[int, ...], dtype: Any, sharding: Sharding) -> Described:
        self._trace.check_devices([sharding])
        sharding.shard_shape(shape)
        struct = jax.ShapeDtypeStruct(
            shape, jax.dtypes.canonicalize_dtype(dtype), sharding=sharding
        )
        return self._trace.described(jax.typeof(struct), sharding, source="the input")


def global_shape_of(sharding: Any, local: Sequence[int]) -> tuple[int, ...]:
    """The shape of an array of which the first host has a part.

    Args:
      sharding: Of the array; a `NamedSharding`.
      local: The shape of the part.

    Raises:
      RehearsalError: The sharding does not say it.
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
    """In how many parts a dimension is cut."""
    names = sharding.spec[dimension] if dimension < len(sharding.spec) else None
    axes = (names,) if isinstance(names, str) else tuple(names or ())
    return math.prod(sharding.mesh.shape[axis] for axis in axes)
