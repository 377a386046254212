"""Values of JAX's arrays on this process: offered and placed in pieces, rescued to a file, and summarized.

Each process reads and makes only the pieces that lie on its own devices. nbdist's own programs and transfers run
under JAX's default settings (`plain_settings`).

A summary of an array on several processes has the corners of its values and a few numbers, from each process
alone. Nothing is computed on a device for it: a program that uses such an array would need all processes that hold
a part of it.
"""

from __future__ import annotations

import base64
import contextlib
import os
import sys
import tempfile
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from math import prod
from pathlib import Path
from types import ModuleType
from typing import Any

from msgspec import structs

from nbdist.contract.calls.inspection import MIME, ArraySummary, Numbers, PieceSummary, Summary
from nbdist.contract.calls.values import Box
from nbdist.contract.iopub import Rescued
from nbdist.contract.snapshot import NamedSharding
from nbdist.contract.wire import encode
from nbdist.engine.frameworks.jax.objects import array_paths
from nbdist.engine.frameworks.jax.observe import describe
from nbdist.engine.values.arrays import OfferedArray, ReadablePiece, readable, whole_of
from nbdist.engine.values.incoming import Place
from nbdist.errors import ArrayError, SpecError
from nbdist.notation import array_type_text, mesh_axes_text, spec_text
from nbdist.pieces import slices
from nbdist.spelling import option
from nbdist.summary import Grid, corners, places, text


@contextlib.contextmanager
def plain_settings() -> Iterator[None]:
    """Set aside, on this thread, the user's settings that could stop or change what nbdist itself runs.

    JAX's defaults hold instead, except that types of 64 bits are on: an array made under `jax.enable_x64` would
    otherwise come back with half its bits. The settings themselves, and other threads, stay as they are.
    """
    import jax

    with (
        jax.disable_jit(disable=False),
        jax.no_tracing(False),
        # Only if they are on: JAX does not restore the thread's hook afterwards (jax 0.12.0.1).
        jax.debug_nans(False) if jax.config.jax_debug_nans else contextlib.nullcontext(),
        jax.debug_infs(False) if jax.config.jax_debug_infs else contextlib.nullcontext(),
        jax.check_tracer_leaks(False),
        jax.enable_x64(True),
        jax.default_matmul_precision(None),
        jax.transfer_guard("allow"),
        jax.default_device(None),
    ):
        yield


def offer_array(value: Any, expression: str) -> OfferedArray | None:
    """Return this process's pieces of a JAX array; None for anything else.

    Nothing is computed, and no memory is read until a piece is read. A typed PRNG key is offered as its key
    data (uint32).

    Raises:
      ArrayError: A tracer, or an array that is deleted, donated, of partial sums, or on one other process alone.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    check_array(jax, value, expression)
    if not isinstance(value, jax.Array):
        return None
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
    _refuse_elsewhere(value, expression)
    whole = bool(value.is_fully_addressable)
    return OfferedArray(
        dtype=str(value.dtype),
        shape=list(value.shape),
        nbytes=value.nbytes,
        sharding=None if whole else str(value.sharding),
        pieces=[whole_piece(value)] if whole else unique_pieces(value),
    )


def check_array(
    jax: ModuleType, value: Any, expression: str, *, partial_sums: bool = False
) -> None:
    """Refuse arrays without values: tracers, deleted arrays, and partial sums unless `partial_sums` is set.

    Raises:
      ArrayError: The value is one of these; the message says which, and what to do.
    """
    if isinstance(value, jax.core.Tracer):
        raise ArrayError(
            f"{expression!r} is a tracer: it has no value outside the jitted function it belongs to. "
            "Return it from that function."
        )
    if not isinstance(value, jax.Array):
        return
    if value.is_deleted():
        raise ArrayError(
            f"{expression!r} was deleted or donated (donate_argnums gives its memory to the result). "
            "Use the result of that call."
        )
    spec = getattr(value.sharding, "spec", None)
    partial = getattr(spec, "unreduced", None)
    if partial and not partial_sums:
        axes = ", ".join(map(repr, sorted(partial)))
        raise ArrayError(
            f"{expression!r} holds partial sums over mesh axes {axes}: no device has its values. "
            "Reduce it first: jax.sharding.reshard(x, P(…)) without unreduced."
        )


def _refuse_elsewhere(value: Any, expression: str) -> None:
    """Refuse an array that lies on one other process alone.

    Raises:
      ArrayError: The array lies there; the message names the process, and says how to fetch the array.
    """
    holders = {device.process_index for device in value.sharding.device_set}
    if len(holders) == 1 and not value.sharding.addressable_devices:
        (process,) = holders
        raise ArrayError(
            f"{expression!r} lies on process {process} alone. {option('on', [process])} brings it from there."
        )


def whole_piece(value: Any) -> ReadablePiece:
    """Return an array that lies wholly on this process as one piece."""

    def read() -> Any:
        import numpy

        pieces = unique_pieces(value)
        if len(pieces) == 1:
            return pieces[0].read()
        # Not numpy.asarray(value): JAX would keep the assembled array in memory.
        found = numpy.empty(value.shape, value.dtype)
        for piece in pieces:
            found[slices(piece.bounds)] = piece.read()
        return found

    return ReadablePiece(bounds=whole_of(value.shape), read=read)


def unique_pieces(value: Any) -> list[ReadablePiece]:
    """Return the parts of an array on this process, replicated ones once."""
    found: dict[Box, ReadablePiece] = {}
    for shard in shards(value):
        bounds = bounds_of(shard.index, value.shape)
        found.setdefault(bounds, ReadablePiece(bounds=bounds, read=partial(_read, shard)))
    return list(found.values())


def shards(value: Any) -> list[Any]:
    """Return the parts of an array on each device of this process, as `addressable_shards` has them."""
    return list(readable(value).addressable_shards)


def _read(shard: Any) -> Any:
    import numpy

    with plain_settings():
        return numpy.asarray(shard.data)


def bounds_of(index: Sequence[slice], shape: Sequence[int]) -> Box:
    """Return a shard's index as half-open bounds, one pair for each dimension."""
    return tuple(part.indices(size)[:2] for part, size in zip(index, shape, strict=True))


def placed(sharding: Any, expression: str) -> Place:
    """Return the `Place` of a sharding: which pieces of an array belong here, and how the array is made from them.

    Args:
      sharding: The value of the user's expression.
      expression: The expression, for error texts.

    Raises:
      ArrayError: The value is no sharding.
    """
    import jax

    if not isinstance(sharding, jax.sharding.Sharding):
        kind = type(sharding).__name__
        raise ArrayError(
            f"{expression!r} is a {kind}, not a sharding such as NamedSharding(mesh, P('x'))."
        )

    def place(array: tuple[Any, tuple[int, ...]]) -> tuple[list[Box], Any]:
        dtype, shape = array
        try:
            sharding.shard_shape(shape)
        except (ValueError, IndexError) as error:  # too few dimensions
            raise SpecError(
                f"{expression} does not fit an array of shape {shape}: {error}"
            ) from error
        if jax.dtypes.canonicalize_dtype(dtype) != dtype:
            raise ArrayError(
                f"JAX has no {dtype} here (jax_enable_x64 is off), and would make it smaller. Push it as "
                f"{jax.dtypes.canonicalize_dtype(dtype)}: x.astype(…)."
            )
        devices = sharding.addressable_devices_indices_map(shape)
        indices = {device: bounds_of(index, shape) for device, index in devices.items()}
        bounds = list(dict.fromkeys(indices.values()))

        def finish(parts: list[Any]) -> Any:
            arrays = [
                jax.device_put(parts[bounds.index(one)], device) for device, one in indices.items()
            ]
            return jax.make_array_from_single_device_arrays(shape, sharding, arrays)

        return bounds, finish

    return place


def rescue(namespace: dict[str, object], process_id: int) -> Rescued:
    """Write every named array that has values to a file that outlives the session.

    Called by another thread once the main thread no longer answers.

    JAX arrays are saved piece by piece under all paths that reach them: `w[0:4, 0:2]` is a piece of `w`, named
    by its bounds in the whole array. NumPy arrays are saved if they have a name of their own. Arrays that are
    still being computed are left out. `numpy.load` reads the file, which appears only when it is complete.
    """
    import numpy

    pieces: dict[str, Any] = {}
    left_out: list[str] = []
    jax_array = getattr(sys.modules.get("jax"), "Array", None)
    named = {
        name: value
        for name, value in list(namespace.items())
        if type(value) is numpy.ndarray and not name.startswith("_")
    }
    if jax_array is not None:
        named |= array_paths(namespace, jax_array)
    for path, array in named.items():
        try:
            pieces |= _pieces(path, array)
        except Exception:  # noqa: BLE001 - deleted, lost, or not ready: named in `left_out`
            left_out.append(path)
    folder = Path(tempfile.mkdtemp(prefix=f"nbdist-rescued-{os.getpid()}-"))
    file, part = folder / f"process-{process_id}.npz", folder / "part.npz"
    numpy.savez(part, **pieces)
    part.chmod(0o600)
    part.rename(file)  # the file is complete or absent: the process may be killed at any moment
    nbytes = sum(piece.nbytes for piece in pieces.values())
    return Rescued(path=str(file), arrays=len(pieces), nbytes=nbytes, left_out=tuple(left_out))


def _pieces(path: str, array: Any) -> dict[str, Any]:
    """Return the pieces of one array by name, without waiting for any.

    Raises:
      ValueError: The array is being computed, or has no values.
    """
    import numpy

    if type(array) is numpy.ndarray:
        return {path: array}
    if array.is_deleted():  # `is_ready` of a deleted array ends the process (JAX 0.10.0)
        raise ValueError(f"{path} has no values")
    if not array.is_ready():
        raise ValueError(f"{path} is being computed")
    found = {}
    for piece in unique_pieces(array):
        name = ", ".join(f"{start}:{stop}" for start, stop in piece.bounds)
        found[f"{path}[{name}]"] = piece.read()
    return found


MOST_BYTES = 1 << 28
"""Most bytes of an array that a process reads; reading more would take seconds, and memory of the host."""


def shown(array: Any) -> dict[str, Any] | None:
    """Return what a cell that ends in an array on several processes shows; None where JAX shows it.

    JAX itself shows only the shape if the array is large, or if no process has all of it.
    """
    if array.is_fully_addressable:
        return None
    if array.is_fully_replicated:
        return _copy(array)
    summary = summarize(array)
    return None if summary is None else {MIME: encode(summary)}


def _copy(array: Any) -> dict[str, Any] | None:
    """Return the text of an array that each process has whole; equal copies give equal texts."""
    if not repr(array).startswith("Array(shape="):
        return None  # JAX shows its values
    summary = summarize(array, first_copies=False)
    return None if summary is None else {"text/plain": text([summary])}


def summary(namespace: dict[str, object], path: str) -> Summary:
    """Return this process's part of a summary of the array under a path; runs no code that users wrote."""
    import jax

    array = array_paths(namespace, jax.Array).get(path)
    if array is None or array.is_deleted():
        return Summary(state="missing")
    if not array.is_ready():
        return Summary(state="computing")
    grid = places(array.shape)
    return Summary(
        state="shown",
        whole=bool(array.is_fully_addressable),
        part=summarize(array),
        places=None if grid is None else summarize(array, grid, numbers=False),
    )


def summarize(
    array: Any, grid: Grid | None = None, *, numbers: bool = True, first_copies: bool = True
) -> ArraySummary | None:
    """Return this process's part of a summary; see `nbdist.summary`.

    Args:
      array: A `jax.Array`.
      grid: The places along each axis whose values are wanted; None: the corners.
      numbers: Whether to read all values, for the smallest, the largest and so on.
      first_copies: True: only pieces of which this process has the first copy. False: the first piece here, for
        an array that each process has whole.

    Returns:
      None for an array that has no values, or whose values are not numbers.
    """
    import jax

    if array.is_deleted() or getattr(getattr(array.sharding, "spec", None), "unreduced", None):
        return None
    if not jax.dtypes.issubdtype(array.dtype, jax.numpy.number) and array.dtype != bool:
        return None
    grid = corners(array.shape) if grid is None else grid
    own = shards(array)
    own = [shard for shard in own if shard.replica_id == 0] if first_copies else own[:1]
    small = sum(shard.data.nbytes for shard in own) <= MOST_BYTES
    try:
        pieces = tuple(
            _piece(shard, array.shape, grid, readable=small, numbers=numbers) for shard in own
        )
    except RuntimeError:
        return None  # the computation of the array has failed
    return ArraySummary(
        shape=tuple(array.shape),
        dtype=str(array.dtype),
        about=_about(array),
        grid=None if grid is None else tuple(map(tuple, grid)),
        pieces=pieces,
    )


def _about(array: Any) -> str:
    described, meshes = describe(array)
    text = f"{array_type_text(described.dtype, described.shape)}  {spec_text(described)}"
    if isinstance(described.sharding, NamedSharding):
        (mesh,) = (mesh for mesh in meshes if mesh.id == described.sharding.mesh)
        text += f" on mesh {mesh_axes_text(mesh)}"
    return text


def _piece(
    shard: Any, shape: tuple[int, ...], grid: Grid | None, *, readable: bool, numbers: bool
) -> PieceSummary:
    import numpy as np

    bounds = [part.indices(size)[:2] for part, size in zip(shard.index, shape, strict=True)]
    piece = PieceSummary(size=prod(stop - start for start, stop in bounds))
    if not readable:
        return piece
    values = np.asarray(shard.data)
    if numbers:
        piece = structs.replace(piece, numbers=_numbers(values))
    if grid is not None:
        inside = [
            (bisect_left(axis, start), bisect_left(axis, stop))
            for axis, (start, stop) in zip(grid, bounds, strict=True)
        ]
        wanted = [
            [place - start for place in axis[low:high]]
            for axis, (low, high), (start, _) in zip(grid, inside, bounds, strict=True)
        ]
        part = np.ascontiguousarray(values[np.ix_(*wanted)])
        encoded = base64.b64encode(part.tobytes()).decode()
        piece = structs.replace(piece, places=tuple(inside), values=encoded)
    return piece


def _numbers(values: Any) -> Numbers:
    import jax
    import numpy as np

    if values.dtype == bool or jax.dtypes.issubdtype(values.dtype, np.integer):
        values = values.astype(np.int32) if values.dtype.itemsize < 4 else values
        numbers = Numbers(nan=0, counted=int(values.size), whole=True)
        if values.size:
            total = str(float(values.sum(dtype=np.float64)))
            low, high = str(int(values.min())), str(int(values.max()))
            numbers = structs.replace(numbers, min=low, max=high, sum=total)
        return numbers
    if values.dtype.itemsize < 4:
        values = values.astype(np.float32)
    unknown = np.isnan(values)
    nan = int(np.count_nonzero(unknown))
    numbers = Numbers(nan=nan, counted=int(values.size) - nan, whole=False)
    if nan < values.size and not np.iscomplexobj(values):
        known = values[~unknown] if nan else values
        with np.errstate(all="ignore"):
            total = known.sum(dtype=np.float64)
        low, high, total = (repr(float(one)) for one in (known.min(), known.max(), total))
        numbers = structs.replace(numbers, min=low, max=high, sum=total)
    return numbers
