"""Steps of Keras that an interrupt leaves whole, so that a model has its values afterwards.

While Keras computes with JAX, the values are out of the variables, and each step gives its memory away for the
result. Keras puts them back at the end of an epoch, and when `fit` is left, but from what the step before gave:
the memory of an interrupted one is gone, and the first of all has none before it (Keras 3.15.1). So an interrupt
waits for the end of a step, and what is left without values gets those it had.
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
"""The attributes of `keras.Model` in which its `make_…` methods put the steps, and the variables in the state that
a step takes, in their order."""

PutOff = Callable[[], AbstractContextManager[None]]


def made_whole(name: str, make: Callable[..., Any], put_off: PutOff) -> Callable[..., Any]:
    """A `make_train_function` and its like, whose step is done whole.

    Args:
      name: Of the attribute, such as `train_function`.
      make: Keras' method, which is public and may be overridden.
      put_off: Within it, interrupts are put off.
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
    """Has Keras know the values of a state, from which `jax_state_sync` puts them back.

    Private API: `_jax_state` and `_jax_state_synced` of Keras' trainer for JAX, which sets them itself, but only
    after a step. Without them a model that is interrupted in its first step has no values, as in Keras alone.
    """
    if hasattr(model, "_jax_state_synced"):
        model._jax_state = {
            f"{name}_variables": values for name, values in zip(groups, state, strict=False)
        }


def put_back(model: Any) -> None:
    """Puts values back into the variables of a model, where a call that was left has them still."""
    state = getattr(model, "_jax_state", None)
    if state and not getattr(model, "_jax_state_synced", True):
        if _are_there(state.values()):
            model.jax_state_sync()
        model._jax_state = None


def _are_there(state: Iterable[Any]) -> bool:
    """Whether no value of a state was given away."""
    values = [value for group in state for value in group or ()]
    return not any(value.is_deleted() for value in values if hasattr(value, "is_deleted"))
