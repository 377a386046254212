"""Checkpoints, saving and complete predictions for Keras on several processes, which Keras leaves to its users.

All of it works in one process as well, and in processes that nbdist did not start. Every process calls the
same function with the same arguments; these functions decide what each process does. Nothing imports Keras
before it is needed.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nbdist.keras.checkpoint import Checkpoint, latest, restore, save
    from nbdist.keras.roles import checkpoint_dir
    from nbdist.keras.together import predict

__all__ = ["Checkpoint", "checkpoint_dir", "latest", "predict", "restore", "save"]

_HOME = {
    "Checkpoint": "checkpoint",
    "latest": "checkpoint",
    "restore": "checkpoint",
    "predict": "together",
    "checkpoint_dir": "roles",
    "save": "checkpoint",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    _leave_out_tensorflow()
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def _leave_out_tensorflow() -> None:
    """Make Keras take JAX where nothing was chosen and TensorFlow, its default, is not installed.

    Importing Keras would fail. The choice is in `KERAS_BACKEND` or in Keras' settings, which may be the default.
    """
    if "keras" in sys.modules or "KERAS_BACKEND" in os.environ:
        return
    settings = Path(os.environ.get("KERAS_HOME") or Path.home() / ".keras") / "keras.json"
    try:
        chosen = json.loads(settings.read_text()).get("backend", "tensorflow")
    except (OSError, ValueError):
        chosen = "tensorflow"
    if chosen == "tensorflow" and importlib.util.find_spec("tensorflow") is None:
        os.environ["KERAS_BACKEND"] = "jax"
