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


def client() -> Any | None:
    """JAX's client of the service that this process has joined; None where it has joined none.

    Private API: `jax._src.distributed.global_state.client` (jax 0.10.0 to 0.12.0.1). Where it is gone, libraries
    that keep it for themselves, as Orbax does, can save nothing after a repair.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    return getattr(state, "client", None)


def join(arguments: Mapping[str, Any]) -> None:
    """Joins a service, and waits for the others.

    Args:
      arguments: Those of `jax.distributed.initialize`.

    Raises:
      RuntimeError: The others did not come in time.
    """
    import jax

    try:
        with client_with(shutdown_on_destruction=False, missed_heartbeat_callback=_ignore):
            jax.distributed.initialize(**arguments)
    except RuntimeError as error:
        if NO_STATUS not in str(error):
            raise
        within = arguments["initialization_timeout"]
        raise RuntimeError(f"the other processes did not arrive within {within} s") from error


@contextlib.contextmanager
def client_with(**options: Any) -> Iterator[None]:
    """Within it, JAX's client of a service is made with these options as well.

    `shutdown_on_destruction=False`: leaving a service asks nothing of it, which may not answer any more.
    `missed_heartbeat_callback`: one that cannot connect raises an error; by itself it ends its process (SIGABRT).
    jaxlib cannot convert what it would call this with, and raises that as an error.

    Private API: `jaxlib._jax.get_distributed_runtime_client` and these arguments (jaxlib 0.10.0 to 0.12.0.1).
    Where they are gone a process whose others do not come ends, and one whose service has ended waits for it when
    it leaves.
    """
    jaxlib: Any = getattr(sys.modules.get("jax._src.distributed"), "_jax", None)
    make: Any = getattr(jaxlib, "get_distributed_runtime_client", None)
    signature = getattr(make, "__doc__", None) or ""
    known = {name: value for name, value in options.items() if name in signature}
    if not known:
        yield
        return
    jaxlib.get_distributed_runtime_client = functools.partial(make, **known)
    try:
        yield
    finally:
        jaxlib.get_distributed_runtime_client = make


def leaves_without_asking() -> contextlib.AbstractContextManager[None]:
    """Within it, a service is joined in such a manner that leaving it asks nothing of it."""
    return client_with(shutdown_on_destruction=False)


def _ignore(*status: object) -> None:
    """Called with what has failed, by a jaxlib that can convert it; connecting raises it as well."""
