"""Arguments of `jax.distributed.initialize` that a person may give."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdist.errors import OptionError
from nbdist.spelling import option

METHODS = ("ompi", "slurm", "mpi4py", "gcetpu", "gketpu")
"""JAX's names of detection methods, in its order. Its Kubernetes detection has no name and cannot be asked for."""

DETECTION_METHODS = ("deactivate", *METHODS)

_ARGUMENTS = {
    "cluster_detection_method": "cluster_detection_method",
    "initialization_timeout_s": "initialization_timeout",
    "heartbeat_timeout_s": "heartbeat_timeout_seconds",
    "shutdown_timeout_s": "shutdown_timeout_seconds",
    "coordinator_bind_address": "coordinator_bind_address",
}


def asked_arguments(asked: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options under the names that `jax.distributed.initialize` has for them.

    Raises:
      OptionError: An unknown name, or an impossible value.
    """
    unknown = sorted(set(asked) - set(_ARGUMENTS))
    if unknown:
        raise OptionError(f"nbdist.start() has no argument {unknown[0]!r}.")
    found = {_ARGUMENTS[name]: value for name, value in asked.items() if value is not None}
    for name, value in found.items():
        if name.endswith(("timeout", "seconds")) and value <= 0:
            raise OptionError(f"{name}={value}: must be more than 0 seconds.")
    method = found.get("cluster_detection_method")
    if method is not None and method not in DETECTION_METHODS:
        raise OptionError(
            f"{option('cluster_detection_method', method)}: known are {', '.join(DETECTION_METHODS)}."
        )
    return found
