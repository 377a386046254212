"""JAX's coordination service: leaving one, and joining the next."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Iterator, Mapping
from typing import Any

NO_STATUS = "bad_cast"
"""Part of jaxlib's error when it cannot convert the argument of a callback."""


def leave() -> None:
    """Leave the service, also one that does not answer any more.

    Private API: `jax._src.distributed.global_state` with `client` (jax 0.10.0 to 0.12.0.1). A client that has
    failed refuses to be shut down, and JAX keeps it. Without the private name, JAX then refuses to join another
    service.
    """
    import jax

    try:
        jax.distributed.shutdown()
    except RuntimeError:
        state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
        if state is not None:
            state.client = None
            jax.distributed.shutdown()  # shuts down the rest


def client() -> Any | None:
    """Return JAX's client of the service that this process has joined; None if it has joined none.

    Private API: `jax._src.distributed.global_state.client` (jax 0.10.0 to 0.12.0.1). Without it, libraries that
    keep the client themselves, as Orbax does, can save nothing after a repair.
    """
    state = getattr(sys.modules.get("jax._src.distributed"), "global_state", None)
    return getattr(state, "client", None)


def join(arguments: Mapping[str, Any]) -> None:
    """Join a service, and wait for the other processes.

    Args:
      arguments: The arguments of `jax.distributed.initialize`.

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
    """Make JAX create its client of a service with these options, within the context.

    `shutdown_on_destruction=False`: leaving a service sends it no request, which it may not answer any more.
    `missed_heartbeat_callback`: a client that cannot connect raises an error; by default it ends its process
    (SIGABRT). jaxlib cannot convert the argument of this callback, and raises that as an error.

    Private API: `jaxlib._jax.get_distributed_runtime_client` and these arguments (jaxlib 0.10.0 to 0.12.0.1).
    Without them a process ends if the others do not come, and waits for its service when it leaves one that has
    ended.
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
    """Return a context: a service that is joined in it is left without a request to it."""
    return client_with(shutdown_on_destruction=False)


def _ignore(*status: object) -> None:
    """Ignore a failure: a jaxlib that can convert it calls this, and connecting raises it as well."""
