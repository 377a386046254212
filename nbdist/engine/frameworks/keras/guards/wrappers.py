"""Wrappers around methods of `keras.Model`: calls are agreed on before they begin, and each step is done whole.

`install` puts them into `keras.Model`. Each call of `METHODS` first goes to the guard, whose error is raised in
place of the call. On the JAX back end, an interrupt does not break off a step, so that a model has its values
afterwards (`made_whole`). The wait for the results of a step is one that an interrupt can end (`place`).
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

from nbdist.engine.frameworks.hooks import replaced
from nbdist.engine.frameworks.interfaces import ThisProcess
from nbdist.engine.frameworks.jax.private import coordinator_client
from nbdist.engine.frameworks.keras import private
from nbdist.engine.frameworks.keras.guards.agreement import CallAgreement, SharedBoard
from nbdist.engine.frameworks.keras.guards.watch import CallGuard

SHORTEST_SECONDS = 0.00005
LONGEST_SECONDS = 0.002
"""The shortest and longest time between two looks at what is being computed."""


def place() -> Callable[[], None] | None:
    """Make Keras wait for logs here before it turns them into numbers.

    NumPy's conversion of a JAX array waits in C++, where no interrupt arrives: a process whose peers have left
    the step would never come back.

    Returns:
      A function that removes the wait; None where it could not be placed.
    """
    original = private.LOGS.get()
    if original is None:
        return None

    @functools.wraps(original)
    def pythonify_logs(logs: Any) -> Any:
        if threading.current_thread() is threading.main_thread():
            until_ready(logs)
        return original(logs)

    private.LOGS.set(pythonify_logs)
    return lambda: private.LOGS.set(original)


def until_ready(logs: Any) -> None:
    """Wait until no JAX array in `logs` is being computed any more."""
    import keras

    pending = [leaf for leaf in keras.tree.flatten(logs or {}) if hasattr(leaf, "is_ready")]
    pause = SHORTEST_SECONDS
    while pending := [leaf for leaf in pending if not leaf.is_ready()]:
        time.sleep(pause)
        pause = min(2 * pause, LONGEST_SECONDS)


STEPS = {
    "train_function": ("trainable", "non_trainable", "optimizer", "metrics"),
    "test_function": ("trainable", "non_trainable", "metrics"),
    "predict_function": ("trainable", "non_trainable"),
}
"""The attributes of `keras.Model` in which its `make_…` methods put the steps, each with the groups of variables
in the state that the step takes, in order."""

PutOff = Callable[[], AbstractContextManager[None]]
"""A function that returns a context in which interrupts are put off."""


def made_whole(name: str, make: Callable[..., Any], put_off: PutOff) -> Callable[..., Any]:
    """Return a method such as `make_train_function` that makes a step which interrupts do not break off.

    While Keras computes with JAX, the variables do not hold their values, and each step gives the values' memory
    away for its result. Keras puts the values back at the end of an epoch, and when `fit` is left, but from the
    result of the step before. An interrupted step has given that memory away, and the first step has no result
    before it (Keras 3.15.1). So an interrupt waits for the end of a step, and a model without values gets back the
    values it had.

    Args:
      name: The name of the attribute, such as `train_function`.
      make: Keras' method, which is public and may be overridden.
      put_off: Returns a context in which interrupts are put off.
    """

    @functools.wraps(make)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        made = make(self, *args, **options)
        step = getattr(self, name, None)
        if step is not None and not hasattr(step, "nbdist_whole"):
            setattr(self, name, _whole(step, self, STEPS[name], put_off))
        return made

    return method


def _whole(
    step: Callable[..., Any], model: Any, groups: Sequence[str], put_off: PutOff
) -> Callable[..., Any]:
    @functools.wraps(step)
    def whole(state: Any, data: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        try:
            with put_off():
                result = step(state, data)
                _keep(model, groups, result[1])
                return result
        except BaseException:  # raised again, with what the step has left
            if _are_there(state):
                _keep(model, groups, state)
            raise

    whole.nbdist_whole = True  # type: ignore[attr-defined]
    return whole


def _keep(model: Any, groups: Sequence[str], state: Any) -> None:
    """Tell Keras the values of a state, so that `jax_state_sync` can put them back into the variables.

    Keras' trainer for JAX does so itself, but only after a step.
    """
    if private.JAX_STATE_SYNCED.is_kept(model):
        named = {f"{name}_variables": one for name, one in zip(groups, state, strict=False)}
        setattr(model, private.JAX_STATE.name, named)


def put_back(model: Any) -> None:
    """Put values back into the variables of a model if a call that was broken off still has them."""
    state = private.JAX_STATE.of(model)
    if state and private.JAX_STATE_SYNCED.of(model) is False:
        if _are_there(state.values()):
            model.jax_state_sync()
        setattr(model, private.JAX_STATE.name, None)


def _are_there(state: Iterable[Any]) -> bool:
    """Return whether no value of a state was given away."""
    values = [value for group in state for value in group or ()]
    return not any(value.is_deleted() for value in values if hasattr(value, "is_deleted"))


METHODS = ("fit", "evaluate", "predict", "save", "save_weights")
"""The methods of `keras.Model` that are guarded."""

ATTRIBUTE = "nbdist_watch"
"""The attribute of `keras.Model` that holds the guard."""


def install(process: ThisProcess) -> None:
    """Guard `keras.Model` on this engine; a second call changes nothing."""
    import keras

    if guard() is not None:
        return
    watch = CallGuard(_agreement(process), process.interrupts, process.stop)
    setattr(keras.Model, ATTRIBUTE, watch)
    for name in METHODS:
        method = _guarded(name, getattr(keras.Model, name), watch)
        watch.restore.append(replaced(keras.Model, name, method))
    if keras.config.backend() == "jax":
        for step in STEPS:
            name = f"make_{step}"
            method = made_whole(step, getattr(keras.Model, name), watch.step)
            watch.restore.append(replaced(keras.Model, name, method))
    unplace = place()
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


def guard() -> CallGuard | None:
    """Return the guard of `keras.Model`; None where it has none, as in a plain process."""
    import keras

    watch: CallGuard | None = vars(keras.Model).get(ATTRIBUTE)
    return watch


def _agreement(process: ThisProcess) -> CallAgreement | None:
    """Return the agreement with the other processes; None if JAX is not connected to a coordinator."""
    if coordinator_client() is None:
        return None
    board = SharedBoard(coordinator_client, process.process_id)
    agreement = CallAgreement(board, process.cell, process.process_id, process.host)
    process.cell.at_edges(agreement.edge)
    return agreement


def _guarded(name: str, original: Callable[..., Any], watch: CallGuard) -> Callable[..., Any]:
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
