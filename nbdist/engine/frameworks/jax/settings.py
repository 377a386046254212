"""JAX's settings that change what a program computes."""

from __future__ import annotations

import sys
from enum import Enum
from typing import Any

PLACES = frozenset(
    {
        # Devices and addresses of one process.
        *("jax_num_cpu_devices", "jax_cuda_visible_devices", "jax_rocm_visible_devices"),
        *("jax_oneapi_visible_devices", "jax_cross_host_transfer_socket_address"),
        "jax_cross_host_transport_addresses",
        # Files of one host.
        *("jax_compilation_cache_dir", "jax_dump_ir_to", "jax_mtls_ca_file"),
        *("jax_mtls_cert_file", "jax_mtls_key_file"),
    }
)
"""Settings of JAX that belong to one process or its host."""

OWN_SETTINGS = PLACES | frozenset(
    {
        # What one process logs and shows.
        *("jax_logging_level", "jax_debug_log_modules", "jax_log_compiles"),
        *("jax_explain_cache_misses", "jax_log_checkpoint_residuals", "jax_pprint_use_color"),
        *("jax_traceback_filtering", "jax_tracer_error_num_traceback_frames"),
        *("jax_compiler_detailed_logging_min_ops", "jax_distributed_debug"),
        "jax_pallas_verbose_errors",
    }
)
"""Settings of JAX that may differ between processes; all others are compared."""


def settings() -> dict[str, str] | None:
    """Return the settings of `jax.config` on this thread, as text by name; None if JAX is not imported.

    Starts nothing. Settings of this thread alone count, such as a `with jax.enable_x64():` that was not left.
    """
    config = getattr(sys.modules.get("jax"), "config", None)
    values = getattr(config, "values", None)
    if not isinstance(values, dict):
        return None
    return {name: setting_text(value) for name, value in values.items() if name not in OWN_SETTINGS}


def setting_text(value: Any) -> str:
    """Return a value as text without addresses; a device as its platform, since each process names its own."""
    if isinstance(value, Enum):
        return value.name
    if value is None or type(value) in (bool, int, float, str):
        return repr(value)
    if isinstance(value, (tuple, list)):
        return f"({', '.join(map(setting_text, value))})"
    if isinstance(value, dict):
        return str({str(key): setting_text(one) for key, one in sorted(value.items())})
    platform = getattr(value, "platform", None)
    return f"a {platform} device" if isinstance(platform, str) else f"a {type(value).__name__}"
