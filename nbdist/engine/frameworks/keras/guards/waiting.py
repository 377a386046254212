"""Wait for the results of a step that an interrupt can end."""

from __future__ import annotations

import functools
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

SHORTEST_SECONDS = 0.00005
LONGEST_SECONDS = 0.002
"""The shortest and longest time between two looks."""


def place() -> Callable[[], None] | None:
    """Make Keras wait for logs here before it turns them into numbers.

    NumPy's conversion of a JAX array waits in C++, where no interrupt arrives: a process whose peers have left
    the step would never come back.

    Returns:
      A function that removes the wait; None where it could not be placed.

    Private API: `keras.src.utils.python_utils.pythonify_logs`, which gets the logs of each step and each epoch
    (Keras 3.15.1). If it is missing, such a process is reported as stuck.
    """
    module = sys.modules.get("keras.src.utils.python_utils")
    original = getattr(module, "pythonify_logs", None)
    if original is None:
        return None

    @functools.wraps(original)
    def pythonify_logs(logs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            until_ready(logs)
        return original(logs)

    setattr(module, "pythonify_logs", pythonify_logs)  # noqa: B010 - to mypy a module's functions are constants
    return lambda: setattr(module, "pythonify_logs", original)


def until_ready(logs: Any) -> None:
    """Wait until no JAX array in `logs` is being computed any more."""
    import keras

    pending = [leaf for leaf in keras.tree.flatten(logs or {}) if hasattr(leaf, "is_ready")]
    pause = SHORTEST_SECONDS
    while pending := [leaf for leaf in pending if not leaf.is_ready()]:
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_SECONDS)
