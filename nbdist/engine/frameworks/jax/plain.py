"""JAX's default settings, for programs and transfers of nbdist's own."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def plain_settings() -> Iterator[None]:
    """Set aside, on this thread, the user's settings that could stop or change a program of nbdist's.

    The settings themselves, and other threads, stay as they are. Types of 64 bits are on: an array made under
    `jax.enable_x64` would otherwise come back with half its bits.
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
