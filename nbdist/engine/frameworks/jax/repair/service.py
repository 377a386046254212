"""Leaving one coordination service of JAX's, and joining the next."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any

NO_STATUS = "bad_cast"
"""The error of a callback that jaxlib cannot give what it has for it."""


def leave() -> None:
    """Leaves the service, also one that does not answer any more.

    Private API: `jax._src.distributed.global_state` with `client` (jax 0.10.0 to 0.12.0.1). A client that has
    failed refuses to be shut down, and JAX keeps it. Where it is gone, joining another service is then an error of
    JAX's.
    """
    import jax

    try:
        jax.distributed.shutdown()
    except RuntimeError:
        state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
        if state is not None:
            state.client = None
            jax.distributed.shutdown()  # what is left besides


def join(arguments: Mapping[str, Any]) -> None:
    """Joins a service, and waits for the others.

    Args:
      arguments: Those of `jax.distributed.initialize`.

    Raises:
      RuntimeError: The others did not come in time.
    """
    import jax

    try:
        with _without_aborts():
            jax.distributed.initialize(**arguments)
    except RuntimeError as error:
        if NO_STATUS not in str(error):
            raise
        within = arguments["initialization_timeout"]
        raise RuntimeError(f"the other processes did not arrive within {within} s") from error


@contextlib.contextmanager
def _without_aborts() -> Iterator[None]:
    """Has a client that cannot connect raise an error; by itself it ends its process (SIGABRT).

    Private API: `jaxlib._jax.get_distributed_runtime_client` and its `missed_heartbeat_callback` (jaxlib 0.10.0 to
    0.12.0.1). jaxlib cannot convert what it would call this with, and raises that as an error. Where it is gone a
    process whose others do not come ends.
    """
    jaxlib: Any = getattr(sys.modules.get("jax._src.distributed"), "_jax", None)
    make: Any = getattr(jaxlib, "get_distributed_runtime_client", None)
    if "missed_heartbeat_callback" not in (getattr(make, "__doc__", None) or ""):
        yield
        return
    jaxlib.get_distributed_runtime_client = functools.partial(
        make, missed_heartbeat_callback=_ignore
    )
    try:
        yield
    finally:
        jaxlib.get_distributed_runtime_client = make


def _ignore(*status: object) -> None:
    """Called with what has failed, by a jaxlib that can convert it; connecting raises it as well."""
