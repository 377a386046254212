"""Has what `fit` and `evaluate` find noted: the results of an epoch or an evaluation."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from nbdist.engine.frameworks.keras.classes import PACKAGES
from nbdist.engine.probe.progress import evaluation, note

_hooked: dict[str, Callable[[], None]] = {}
"""What takes each hook away, by package."""


def hook_callbacks() -> None:
    """Has the results of each epoch and evaluation noted, of the packages imported by now.

    `keras.callbacks.CallbackList` is public: every `fit` and `evaluate` calls it at each epoch's end and each
    evaluation's end. Its methods are followed rather than a callback added, which would be in what `fit`
    returns and prints. A class without them is left alone, and nothing is noted.
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
    """Leaves the packages as they were."""
    while _hooked:
        _hooked.popitem()[1]()


def _follow(cls: Any) -> Callable[[], None] | None:
    """Places the hook; returns what takes it away, or None where the class or its methods are gone."""
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
    """Whether a list of callbacks is that of a `fit`, which validates with it at each epoch's end.

    Every `fit` has a `History`, to which it gives `epoch` when it begins; in `tf_keras` evaluations have one, too.
    """
    every = getattr(callbacks, "callbacks", ())
    return any(type(one).__name__ == "History" and hasattr(one, "epoch") for one in every)


def _results(logs: Any) -> dict[str, Any]:
    """The results as numbers. On the thread that trains, which has just turned them into numbers itself."""
    found = {}
    for name, value in (logs or {}).items():
        try:
            found[name] = float(value)
        except (TypeError, ValueError, RuntimeError):
            continue  # not one number, such as a confusion matrix
    return found
