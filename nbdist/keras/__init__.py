"""Checkpoints, saving and complete predictions for Keras on several processes, which Keras leaves to its users.

All of it works in one process as well, and in processes that nbdist did not start. Every process calls the
same function with the same arguments; these functions decide what each process does. Keras is imported only when
it is needed. This module itself has the roles of processes for shared files (`writes`, `elsewhere`, `reads`),
which need no framework.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import shutil
import sys
import tempfile
import weakref
from pathlib import Path
from typing import TYPE_CHECKING, Any

from nbdist.machine.folder import of_this_process

if TYPE_CHECKING:
    from nbdist.keras.checkpoint import Checkpoint, latest, restore, save
    from nbdist.keras.together import predict

__all__ = ["Checkpoint", "checkpoint_dir", "latest", "predict", "restore", "save"]

_HOME = {
    "Checkpoint": "checkpoint",
    "latest": "checkpoint",
    "restore": "checkpoint",
    "predict": "together",
    "save": "checkpoint",
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)


def __dir__() -> list[str]:
    return __all__


def _leave_out_tensorflow() -> None:
    """Make Keras use JAX if no back end was chosen and TensorFlow, its default, is not installed.

    Otherwise importing Keras fails. A back end is chosen in `KERAS_BACKEND` or in Keras' settings; a setting of
    `tensorflow` counts as no choice, since it may be the default.
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


_leave_out_tensorflow()


WRITES, ELSEWHERE, READS = "writes", "elsewhere", "reads"


class _Temporary:
    """Directories of this process, removed when it ends; in a session, at the latest when the session ends."""

    def __init__(self) -> None:
        self._made: dict[str, str] = {}
        weakref.finalize(self, _delete, self._made)

    def standing_for(self, base: str) -> str:
        if base not in self._made:
            # A killed process removes nothing, but the session's folder is removed with everything in it.
            self._made[base] = tempfile.mkdtemp(prefix="nbdist-keras-", dir=of_this_process())
        return self._made[base]


def _delete(made: dict[str, str]) -> None:
    for folder in made.values():
        shutil.rmtree(folder, ignore_errors=True)


_temporary = _Temporary()


def checkpoint_dir(base: str | os.PathLike[str]) -> str:
    """Return the folder where this process may write checkpoints and logs meant for `base`.

    Roles come from `TF_CONFIG` if it is set, else from JAX. `base` is not created.

    Args:
      base: The folder, the same on all processes.

    Returns:
      `base` itself on the chief (process 0, or the only one) and on an evaluator, which reads there. On every
      other process a private directory, always the same for the same `base`, deleted when the process ends.
    """
    wanted = os.fspath(base)
    return _temporary.standing_for(wanted) if role() == ELSEWHERE else wanted


def role() -> str:
    """Return this process's role for shared files: `"writes"`, `"elsewhere"` (writes there), or `"reads"`."""
    from_tensorflow = tf_config_role(os.environ.get("TF_CONFIG"))
    if from_tensorflow is not None:
        return from_tensorflow
    jax = sys.modules.get("jax")
    if jax is None or jax.process_index() == 0:
        return WRITES
    return ELSEWHERE


def tf_config_role(text: str | None) -> str | None:
    """Return the role that `TF_CONFIG` gives this process.

    Source: TensorFlow's guide to multi-worker training: the chief is the task `chief`, or worker 0 if there is no
    such task.

    Args:
      text: The variable's value, JSON; None if it is not set.

    Returns:
      `"writes"`, `"elsewhere"` or `"reads"`; None if there is no cluster in it.
    """
    config = json.loads(text) if text else {}
    cluster, task = config.get("cluster") or {}, config.get("task") or {}
    kind, index = task.get("type"), int(task.get("index", 0))
    if not cluster or kind is None:
        return None
    if kind == "evaluator":
        return READS
    chief = ("chief", 0) if cluster.get("chief") else ("worker", 0)
    return WRITES if (kind, index) == chief else ELSEWHERE


def temporary_name(path: Path) -> Path:
    """Return an unused name beside `path`, with all of its suffixes."""
    with tempfile.NamedTemporaryFile(dir=path.parent, prefix=".writing-") as file:
        return path.parent / f"{Path(file.name).name}.{path.name}"
