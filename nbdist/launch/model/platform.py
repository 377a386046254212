"""The platform of this machine, found without importing a framework.

Importing JAX here and asking it would start a back end in the kernel, and a TPU belongs to the first
process that does so.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from pathlib import Path

from nbdist.launch.model.plan import Platform
from nbdist.machine import checkup


def accelerators(platform: Platform, *, root: Path = Path("/")) -> int:
    """Return the number of GPUs or TPU chips of this machine; 0 for CPU.

    Args:
      platform: Which kind to count.
      root: The file system's root; tests give another.
    """
    found = checkup.accelerators(root)
    return int({"gpu": found["gpus"], "tpu": found["tpus"]}.get(platform, 0))


def choose(*, environment: Mapping[str, str], root: Path = Path("/")) -> Platform:
    """Return the platform JAX would choose: a TPU, else a GPU, else CPU.

    An accelerator counts only if JAX's plug-in for it is installed as well. `JAX_PLATFORMS` in
    `environment` decides if it is set.
    """
    asked = environment.get("JAX_PLATFORMS", "").split(",")[0]
    if asked:
        return {"cpu": "cpu", "tpu": "tpu"}.get(asked, "gpu")  # type: ignore[return-value]
    if _installed("libtpu") and accelerators("tpu", root=root):
        return "tpu"
    if any(map(_installed, GPU_PLUGINS)) and accelerators("gpu", root=root):
        return "gpu"
    return "cpu"


def choose_for_tensorflow(*, root: Path = Path("/")) -> Platform:
    """Return the platform TensorFlow would choose: GPUs if there are any, else CPU."""
    return "gpu" if accelerators("gpu", root=root) else "cpu"


GPU_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin", "jax_rocm7_plugin", "jax_rocm60_plugin")


def _installed(module: str) -> bool:
    return importlib.util.find_spec(module) is not None
