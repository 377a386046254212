"""What `fit` and `evaluate` last told of this process: the results of an epoch or an evaluation."""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from nbdist.engine.frameworks.keras.classes import PACKAGES


@dataclass(slots=True)
class _Last:
    """The newest of this process, replaced as a whole: readers on other threads need no lock."""

    progress: dict[str, Any] | None = None
    evaluation: str = "evaluate"
    hooked: dict[str, Callable[[], None]] = field(default_factory=dict)


_last = _Last()


def note(what: str, metrics: Mapping[str, Any]) -> None:
    """Shows how far this process is, in the next report. For any thread.

    Args:
      what: Such as `"fit, epoch 2 of 5"` or `"evaluate, checkpoint ckpt-3"`.
      metrics: Numbers by name, such as a loss. What is no finite number is left out.
    """
    numbers = {str(name): _number(value) for name, value in metrics.items()}
    _last.progress = {
        "what": what,
        "metrics": [
            {"name": name, "value": value} for name, value in numbers.items() if value is not None
        ],
    }


@contextlib.contextmanager
def evaluating(what: str) -> Iterator[None]:
    """Within it, an evaluation is noted under this name, such as `"evaluate, checkpoint ckpt-3"`."""
    before, _last.evaluation = _last.evaluation, what
    try:
        yield
    finally:
        _last.evaluation = before


def newest() -> list[dict[str, Any]]:
    """The last that was noted, as `nbdist.contract.snapshot.Progress`; nothing before the first."""
    progress = _last.progress
    return [progress] if progress is not None else []


def _number(value: Any) -> float | None:
    # Only what is a number already: asking an array for its value may wait for a device.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None


def hook_callbacks() -> None:
    """Has the results of each epoch and evaluation noted, of the packages imported by now.

    `keras.callbacks.CallbackList` is public: every `fit` and `evaluate` tells it of each epoch's end and each
    evaluation's end. Its methods are followed rather than a callback added, which would be in what `fit`
    returns and prints. A class without them is left alone, and nothing is noted.
    """
    for name in PACKAGES:
        package = sys.modules.get(name)
        if name in _last.hooked or package is None:
            continue
        if getattr(package.__spec__, "_initializing", False):
            continue
        cls = getattr(sys.modules.get(f"{name}.callbacks"), "CallbackList", None)
        unhook = _follow(cls)
        if unhook is not None:
            _last.hooked[name] = unhook


def unhook_callbacks() -> None:
    """Leaves the packages as they were."""
    while _last.hooked:
        _last.hooked.popitem()[1]()


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
            note(_last.evaluation, _results(logs))
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
