"""Hook into Keras' callbacks that notes the results of each epoch of `fit` and of each evaluation."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from nbdist.engine.frameworks.keras.classes import PACKAGES
from nbdist.engine.probe.progress import evaluation, note

_hooked: dict[str, Callable[[], None]] = {}
"""A function that removes each hook, by package."""


def hook_callbacks() -> None:
    """Note the results of each epoch and evaluation from now on, for the packages imported by now.

    `keras.callbacks.CallbackList` is public: every `fit` and `evaluate` calls it at each epoch's end and each
    evaluation's end. The hook wraps its methods: an added callback would show in the results and the output of
    `fit`. A class without these methods is left alone, and nothing is noted.
    """
    for name in PACKAGES:
        package = sys.modules.get(name)
        if name in _hooked or package is None:
            continue
        if getattr(package.__spec__, "_initializing", False):
            continue
        cls = getattr(sys.modules.get(f"{name}.callbacks"), "CallbackList", None)
        unhook = _follow(cls)
        if unhook is not None:
            _hooked[name] = unhook


def unhook_callbacks() -> None:
    """Remove the hooks from all packages."""
    while _hooked:
        _hooked.popitem()[1]()


def _follow(cls: Any) -> Callable[[], None] | None:
    """Place the hook; return a function that removes it, or None where the class or its methods are missing."""
    epoch_end, test_end = (getattr(cls, name, None) for name in ("on_epoch_end", "on_test_end"))
    if epoch_end is None or test_end is None:
        return None

    @functools.wraps(epoch_end)
    def on_epoch_end(self: Any, epoch: int, logs: Any = None) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        result = epoch_end(self, epoch, logs)
        epochs = (getattr(self, "params", None) or {}).get("epochs")
        of = f" of {epochs}" if epochs else ""
        note(f"fit, epoch {epoch + 1}{of}", _results(logs))
        return result

    @functools.wraps(test_end)
    def on_test_end(self: Any, logs: Any = None) -> Any:
        __tracebackhide__ = True
        result = test_end(self, logs)
        if not _is_of_fit(self):
            note(evaluation(), _results(logs))
        return result

    cls.on_epoch_end, cls.on_test_end = on_epoch_end, on_test_end

    def unhook() -> None:
        cls.on_epoch_end, cls.on_test_end = epoch_end, test_end

    return unhook


def _is_of_fit(callbacks: Any) -> bool:
    """Return whether a list of callbacks belongs to a `fit`, which also validates with it at each epoch's end.

    Every `fit` has a `History`, and sets `epoch` on it at the start. In `tf_keras` evaluations have one, too.
    """
    every = getattr(callbacks, "callbacks", ())
    return any(type(one).__name__ == "History" and hasattr(one, "epoch") for one in every)


def _results(logs: Any) -> dict[str, Any]:
    """Return the results as numbers; runs on the thread that trains, where Keras has just made them numbers."""
    found = {}
    for name, value in (logs or {}).items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue  # not one number, such as a confusion matrix
    return found
