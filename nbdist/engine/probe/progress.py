"""The progress of training or evaluation on this process, as it was last noted."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import Metric, Progress


@dataclass(slots=True)
class _Last:
    """The newest progress of this process, replaced as a whole: readers on other threads need no lock."""

    progress: Progress | None = None
    evaluation: str = "evaluate"


_last = _Last()


def note(what: str, metrics: Mapping[str, Any]) -> None:
    """Show in the next report how far this process is; call this on any thread.

    Args:
      what: Such as `"fit, epoch 2 of 5"` or `"evaluate, checkpoint ckpt-3"`.
      metrics: Numbers by name, such as a loss. A value that is no finite number is left out.
    """
    numbers = {str(name): _number(value) for name, value in metrics.items()}
    _last.progress = Progress(
        what=str(what),
        metrics=tuple(
            Metric(name=name, value=value) for name, value in numbers.items() if value is not None
        ),
    )


@contextlib.contextmanager
def evaluating(what: str) -> Iterator[None]:
    """Note evaluations within this block under a name, such as `"evaluate, checkpoint ckpt-3"`."""
    before, _last.evaluation = _last.evaluation, what
    try:
        yield
    finally:
        _last.evaluation = before


def evaluation() -> str:
    """Return the name under which an evaluation is noted now."""
    return _last.evaluation


def newest() -> tuple[Progress, ...]:
    """Return the progress that was noted last; empty before the first."""
    progress = _last.progress
    return (progress,) if progress is not None else ()


def _number(value: Any) -> float | None:
    # Only Python numbers: asking an array for its value may wait for a device.
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if math.isfinite(value) else None
