"""JAX's settings as they are before a user has set any, for what nbdist itself sends and computes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator


@contextlib.contextmanager
def plain_settings() -> Iterator[None]:
    """Within it, no setting of the user's counts on this thread that could stop or change a program of nbdist's.

    The settings themselves, and other threads, stay as they are. Types of 64 bits stay what they are, also where
    the user has not switched them on: what was made under `jax.enable_x64` would come back with half its bits.
    """
    import jax

    with (
        jax.disable_jit(disable=False),
        jax.no_tracing(False),
        # Only where they are on: JAX does not put the hook of the thread back as it was (jax 0.12.0.1).
        jax.debug_nans(False) if jax.config.jax_debug_nans else contextlib.nullcontext(),
        jax.debug_infs(False) if jax.config.jax_debug_infs else contextlib.nullcontext(),
        jax.check_tracer_leaks(False),
        jax.enable_x64(True),
        jax.default_matmul_precision(None),
        jax.transfer_guard("allow"),
        jax.default_device(None),
    ):
        yield
