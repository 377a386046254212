"""Package versions and compiler flags of a process, as far as they change what a program computes."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping

from nbdist.version import __version__

LIBRARIES = ("numpy", "flax", "optax", "equinox")
"""Packages, beside those of frameworks, that decide what a program computes."""

FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Environment variables that hold flags of the compiler."""

OWN_FLAGS = ("--xla_dump_", "--xla_force_host_platform_device_count")
"""Beginnings of flags that may differ between processes: where the compiler writes, how many devices there are."""


def software(frameworks: Iterable[str]) -> dict[str, str]:
    """Return versions by name: Python, nbdist, and the imported packages of frameworks and `LIBRARIES`."""
    found = {"Python": ".".join(map(str, sys.version_info[:3])), "nbdist": __version__}
    for name in (*frameworks, *LIBRARIES):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the compiler's flags, such as `{"XLA_FLAGS --xla_cpu_enable_fast_math": "false"}`.

    Where a flag occurs twice, the last one counts.
    """
    environ = os.environ if environ is None else environ
    found = {}
    for variable in FLAGS:
        for flag in _words(environ.get(variable, "")):
            name, _, value = flag.partition("=")
            if not name.startswith(OWN_FLAGS):
                found[f"{variable} {name}"] = value or "set"
    return found


def _words(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError:  # an open quote
        return text.split()
