"""JAX arrays on their way to the kernel: each unique shard once, as raw bytes."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from nbdist.engine import flax
from nbdist.engine.keras.variables import unwrapped
from nbdist.engine.transfer import bytes_of
from nbdist.errors import ArrayError


def offer_array(
    value: Any, expression: str, limit_bytes: int
) -> tuple[dict[str, Any], list[Any]] | None:
    """This process's pieces of a JAX array, or of a Keras variable that holds one; None for anything else.

    Of each piece only the copy with `replica_id` 0 is offered, so over all processes each is
    sent once. A typed PRNG key is offered as its key data (uint32).

    Raises:
      ArrayError: A tracer, a deleted or donated array, or partial sums.
    """
    jax = sys.modules.get("jax")
    if jax is None:
        return None
    value = flax.unwrapped(unwrapped(value))
    check_array(jax, value, expression)
    if not isinstance(value, jax.Array):
        return None
    described: dict[str, Any] = {"dtype": str(value.dtype), "shape": list(value.shape)}
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
        value = jax.random.key_data(value)
        described |= {"dtype": str(value.dtype), "shape": list(value.shape), "prng_key": True}
    described["nbytes"] = value.nbytes
    described["whole"] = bool(value.is_fully_addressable)
    if value.nbytes > limit_bytes:
        return {"kind": "too_large", **described}, []
    pieces, buffers = _unique_pieces(value)
    return {"kind": "array", "pieces": pieces, **described}, buffers


def check_array(
    jax: ModuleType, value: Any, expression: str, *, partial_sums: bool = False
) -> None:
    """Refuses what looks like an array and holds no values; `partial_sums` lets those through.

    Raises:
      ArrayError: Says which of them it is, and what to do.
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


def _unique_pieces(value: Any) -> tuple[list[list[list[int]]], list[bytes]]:
    import numpy

    pieces, buffers = [], []
    for shard in value.addressable_shards:
        if shard.replica_id != 0:
            continue
        bounds = [
            list(part.indices(size)[:2])
            for part, size in zip(shard.index, value.shape, strict=True)
        ]
        pieces.append(bounds)
        buffers.append(bytes_of(numpy.ascontiguousarray(numpy.asarray(shard.data))))
    return pieces, buffers
