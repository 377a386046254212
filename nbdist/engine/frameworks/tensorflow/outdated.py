"""Refusal of models whose strategy is gone: their metrics and collectives would fail without an error."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

from nbdist.engine.frameworks.tensorflow.strategies import REMEMBERED
from nbdist.errors import InputError
from nbdist.spelling import command

PACKAGES = ("keras", "tf_keras")
METHODS = ("fit", "evaluate", "predict")
MARK = "nbdist_refuses_outdated"


def refuse_outdated() -> None:
    """Refuse outdated models from now on, for the packages imported by now; a second call changes nothing.

    After a reset, the variables of an older model keep their values, but its metrics are not reset between epochs
    any more, and a collective may meet one of another step (TensorFlow 2.21).
    """
    for package in PACKAGES:
        cls = getattr(sys.modules.get(package), "Model", None)
        for name in METHODS if cls is not None else ():
            original = getattr(cls, name)
            if not hasattr(original, MARK):
                setattr(cls, name, _refusing(name, original))


def _refusing(name: str, original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        made_under = getattr(self, "distribute_strategy", None)
        if made_under is not None and REMEMBERED.is_retired(made_under):
            raise InputError(
                f"{name}: the model {self.name!r} was made under the strategy from before "
                f"{command('recover')}, whose cluster is gone. "
                "Create it again under strategy.scope() and restore its newest checkpoint."
            )
        return original(self, *args, **options)

    setattr(method, MARK, True)
    return method
