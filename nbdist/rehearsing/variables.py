"""The variables of a rehearsal's process."""

from __future__ import annotations

from collections.abc import Mapping

from nbdist.rehearsal import libtpu
from nbdist.rehearsal.libtpu import Libtpu


def variables(environment: Mapping[str, str], found: Libtpu) -> dict[str, str]:
    """The variables of a rehearsal's process.

    Args:
      environment: Of this one.
      found: The compiler.
    """
    # The pod is JAX's TPU there; values that are computed while a program is traced are computed on the CPU.
    platforms = {"JAX_PLATFORMS": "tpu,cpu"}
    # JAX cannot load what its own cache keeps for devices that are not there, and would warn each time.
    cache = {"JAX_ENABLE_COMPILATION_CACHE": "false"}
    return {**environment, **libtpu.variables(found), **platforms, **cache}
