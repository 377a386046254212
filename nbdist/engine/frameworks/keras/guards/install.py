"""Wrappers of `keras.Model`'s own methods: each call is checked and agreed on before it begins."""

from __future__ import annotations

import functools
import inspect
import threading
from collections.abc import Callable
from typing import Any

from nbdist.engine.frameworks.jax.store import coordinator_client
from nbdist.engine.frameworks.keras.guards import waiting
from nbdist.engine.frameworks.keras.guards.agreement import Agreement
from nbdist.engine.frameworks.keras.guards.board import Board
from nbdist.engine.frameworks.keras.guards.watch import Watch
from nbdist.engine.frameworks.keras.guards.whole import STEPS, made_whole, put_back
from nbdist.engine.frameworks.process import Process

METHODS = ("fit", "evaluate", "predict", "save", "save_weights")
ATTRIBUTE = "nbdist_watch"
"""The attribute of `keras.Model` that holds the guard."""


def install(process: Process) -> None:
    """Guard `keras.Model` on this engine; a second call changes nothing."""
    import keras

    if guard() is not None:
        return
    watch = Watch(_agreement(process), process.interrupts, process.stop)
    setattr(keras.Model, ATTRIBUTE, watch)
    for name in METHODS:
        method = _guarded(name, getattr(keras.Model, name), watch)
        watch.restore.append(_placed(keras.Model, name, method))
    if keras.config.backend() == "jax":
        for step in STEPS:
            name = f"make_{step}"
            method = made_whole(step, getattr(keras.Model, name), watch.step)
            watch.restore.append(_placed(keras.Model, name, method))
    unplace = waiting.place()
    if unplace is not None:
        watch.restore.append(unplace)


def remove() -> None:
    """Remove the guard from `keras.Model`; a second call changes nothing."""
    import keras

    watch = guard()
    if watch is None:
        return
    delattr(keras.Model, ATTRIBUTE)
    watch.close()
    for restore in watch.restore:
        restore()


def guard() -> Watch | None:
    """Return the guard of `keras.Model`; None where it has none, as in a plain process."""
    import keras

    watch: Watch | None = vars(keras.Model).get(ATTRIBUTE)
    return watch


def _agreement(process: Process) -> Agreement | None:
    """Return the agreement with the other processes; None if JAX is not connected to a coordinator."""
    if coordinator_client() is None:
        return None
    board = Board(coordinator_client, process.process_id)
    agreement = Agreement(board, process.cell, process.process_id, process.host)
    process.cell.at_edges(agreement.edge)
    return agreement


def _placed(owner: Any, name: str, method: Callable[..., Any]) -> Callable[[], None]:
    """Put a method into a class; return a function that removes it."""
    own = vars(owner).get(name)
    setattr(owner, name, method)
    return lambda: delattr(owner, name) if own is None else setattr(owner, name, own)


def _guarded(name: str, original: Callable[..., Any], watch: Watch) -> Callable[..., Any]:
    signature = inspect.signature(original)

    @functools.wraps(original)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        if watch.inside or threading.current_thread() is not threading.main_thread():
            return original(self, *args, **options)
        try:
            bound = signature.bind(self, *args, **options)
        except TypeError:
            return original(self, *args, **options)  # the call's own error is the right one
        bound.apply_defaults()
        error = watch.before(name, self, bound.arguments)
        if error is not None:
            raise error
        watch.slow_down(bound.arguments)
        with watch.within():
            try:
                return original(*bound.args, **bound.kwargs)
            except BaseException:
                put_back(self)
                raise

    return method
