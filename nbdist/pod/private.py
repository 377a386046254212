"""Every private part of JAX that a rehearsal needs, each in one function.

Source: read in JAX 0.10.2 and 0.12.0.1; `check_jax` refuses versions in which a part is missing.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jax
import numpy as np

from nbdist.errors import RehearsalError

TRIED = ("0.10.2", "0.12.0.1")
"""Versions of JAX with which the tests of `tests/rehearsal` have passed."""


@dataclass(frozen=True, slots=True)
class JitCall:
    """A call of a jitted function, as it arrives at a trace.

    Attributes:
      name: The function's name.
      jaxpr: Its operations, closed over its constants.
      in_shardings: One for each argument; None where the function names none.
      out_shardings: One for each result; likewise.
      donated: One for each argument.
      compiler_options: Options that the function was given.
      of_jax: Whether JAX itself has made the function, as most of `jax.numpy` and `jax.random`.
    """

    name: str
    jaxpr: Any
    in_shardings: tuple[Any, ...]
    out_shardings: tuple[Any, ...]
    donated: tuple[bool, ...]
    compiler_options: dict[str, Any]
    of_jax: bool


class _Probe(jax.core.Trace):
    """Keeps the arguments of one call."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[JitCall | None] = []

    def process_primitive(self, primitive: Any, args: Sequence[Any], params: Any, /) -> Any:
        """Return the arguments of the operation."""
        self.calls.append(jit_call(primitive, params))
        return list(args)


def check_jax() -> None:
    """Try everything this module needs of JAX.

    Raises:
      RehearsalError: This version of JAX works differently; names it, and the versions that were tried.
    """
    probe = _Probe()
    try:
        has_chosen_devices()
        with made_current(probe):
            called = is_current(probe)
            jax.jit(lambda x: x)(np.float32(0))
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
    """Give a trace every operation of this thread that no other trace has first, while the block runs.

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
    """Return the contents of a call of a jitted function; None for any other operation.

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
    """Return the shardings, with None in place of the private object that stands for an unnamed one."""
    return tuple(one if isinstance(one, jax.sharding.Sharding) else None for one in shardings)


def _of_jax(jaxpr: Any) -> bool:
    filename = jaxpr.jaxpr.debug_info.func_filename
    return filename is not None and Path(filename).is_relative_to(Path(jax.__file__).parent)
