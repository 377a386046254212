"""Program of a call: lowered and compiled, not run."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

from nbdist.contract.calls.arrays import ProgramFound
from nbdist.errors import ArrayError
from nbdist.program.compiled import compile_program


def program(
    function: Any, arguments: Sequence[Any], named: Mapping[str, Any], expression: str
) -> ProgramFound:
    """Lower a call from the types of its arguments, and compile it for the devices that they lie on.

    Args:
      function: A function made by `jax.jit`.
      arguments: The positional arguments of the call.
      named: The keyword arguments of the call.
      expression: The user's expression, for error texts.

    Raises:
      ArrayError: The function is not made by `jax.jit`.
      ProgramError: The compiler's output cannot be read.
    """
    lower = getattr(function, "lower", None)
    if lower is None:
        raise ArrayError(
            f"{expression!r}: the function (of type {type(function).__name__}) is not made by jax.jit, so that "
            "it is many programs and not one. Wrap it, such as step = jax.jit(step)."
        )
    lowered = lower(*arguments, **named)
    name = getattr(function, "__name__", "")
    found = compile_program(lowered, name=name, limit=_limit())
    digest = hashlib.sha256(lowered.as_text().encode()).hexdigest()
    return ProgramFound(program=found, digest=digest)


def _limit() -> int | None:
    """Return the bytes of memory of the smallest device here; None if a device gives none, as CPUs do not."""
    import jax

    stats = [device.memory_stats() or {} for device in jax.local_devices()]
    limits = [found.get("bytes_limit") for found in stats]
    known = [int(limit) for limit in limits if limit]
    return min(known) if known and len(known) == len(limits) else None
