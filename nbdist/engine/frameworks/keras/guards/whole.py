"""Steps of Keras that an interrupt does not break off, so that a model has its values afterwards.

While Keras computes with JAX, the variables do not hold their values, and each step gives the values' memory away
for its result. Keras puts the values back at the end of an epoch, and when `fit` is left, but from the result of
the step before. An interrupted step has given that memory away, and the first step has none before it (Keras
3.15.1). So an interrupt waits for the end of a step, and a model without values gets back the values it had.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import Any

STEPS = {
    "train_function": ("trainable", "non_trainable", "optimizer", "metrics"),
    "test_function": ("trainable", "non_trainable", "metrics"),
    "predict_function": ("trainable", "non_trainable"),
}
"""The attributes of `keras.Model` in which its `make_…` methods put the steps, each with the groups of variables
in the state that the step takes, in order."""

PutOff = Callable[[], AbstractContextManager[None]]


def made_whole(name: str, make: Callable[..., Any], put_off: PutOff) -> Callable[..., Any]:
    """Return a method such as `make_train_function` whose step interrupts do not break off.

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
        except BaseException:
            if _are_there(state):
                _keep(model, groups, state)
            raise

    whole.nbdist_whole = True  # type: ignore[attr-defined]
    return whole


def _keep(model: Any, groups: Sequence[str], state: Any) -> None:
    """Tell Keras the values of a state, so that `jax_state_sync` can put them back into the variables.

    Private API: `_jax_state` and `_jax_state_synced` of Keras' trainer for JAX, which sets them itself, but only
    after a step. If they are missing, a model that is interrupted in its first step has no values, as in Keras
    alone.
    """
    if hasattr(model, "_jax_state_synced"):
        model._jax_state = {
            f"{name}_variables": values for name, values in zip(groups, state, strict=False)
        }


def put_back(model: Any) -> None:
    """Put values back into the variables of a model, where a call that was broken off still has them."""
    state = getattr(model, "_jax_state", None)
    if state and not getattr(model, "_jax_state_synced", True):
        if _are_there(state.values()):
            model.jax_state_sync()
        model._jax_state = None


def _are_there(state: Iterable[Any]) -> bool:
    """Return whether no value of a state was given away."""
    values = [value for group in state for value in group or ()]
    return not any(value.is_deleted() for value in values if hasattr(value, "is_deleted"))
