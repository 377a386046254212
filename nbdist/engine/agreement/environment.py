"""Versions and variables of a process, as far as they change what a program does."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Mapping

from nbdist.version import __version__

LIBRARIES = ("numpy", "flax", "optax", "equinox")
"""Packages, beside those of frameworks, that decide what a program computes."""

FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Variables that hold flags of the compiler."""

OWN_FLAGS = ("--xla_dump_", "--xla_force_host_platform_device_count")
"""Beginnings of flags that each process may have of its own: where it writes, how many devices it has."""


def software(frameworks: Iterable[str]) -> dict[str, str]:
    """Version by name: of Python, nbdist, and those packages of frameworks and `LIBRARIES` that are imported."""
    found = {"Python": ".".join(map(str, sys.version_info[:3])), "nbdist": __version__}
    for name in (*frameworks, *LIBRARIES):
        version = getattr(sys.modules.get(name), "__version__", None)
        if isinstance(version, str):
            found[name] = version
    return found


def variables(environ: Mapping[str, str] | None = None) -> dict[str, str]:
    """The compiler's flags, such as `{"XLA_FLAGS --xla_cpu_enable_fast_math": "false"}`.

    Of a flag that is there twice the last counts.
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
