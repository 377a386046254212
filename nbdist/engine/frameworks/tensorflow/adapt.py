"""Overrides in Keras 3 for `fit`, `evaluate` and `predict` over several workers, and on uneven batches.

Two functions of Keras' TensorFlow trainer fail there as shipped (Keras 3.15.1):

- Building the model reduces the first batch. This fails over several workers (`MultiWorkerMirroredStrategy`), and
  on one worker if the replicas' parts differ in size. The override gives one replica's part of the batch; only
  shapes and dtypes are used.
- Over several workers, the numbers of each step, which are scalars, are reduced over a dimension that they do not
  have. The override computes the mean over replicas, as Keras says it does.

Upstream: https://github.com/keras-team/keras/issues/20585 and
https://github.com/tensorflow/tensorflow/issues/72388.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
import os
import sys
from collections.abc import Callable
from typing import Any

ANNOUNCEMENT = (
    "Keras {version} as shipped cannot fit under MultiWorkerMirroredStrategy, nor batches that replicas do not "
    "divide (keras-team/keras#20585); nbdist adapts {places} of its TensorFlow trainer in this session."
)


def adapt() -> str | None:
    """Put the overrides in place where the installed Keras needs them; a second call changes nothing.

    Imports Keras, unless `tf.keras` is to be the legacy one: an override must be there before Keras is used.

    A trial decides which overrides are needed, not the version: each function is run once on a strategy that only
    notes the requests. This runs no operation, so a strategy can still be made afterwards.

    Returns:
      One line that names the adapted functions. None where nothing was adapted: the overrides are there already,
      Keras does not run on TensorFlow, or Keras works as shipped.
    """
    trainer = _trainer()
    if trainer is None:
        return None
    places = []
    if _builds_from_a_reduced_batch(trainer):
        _override(trainer.TensorFlowTrainer, "_maybe_symbolic_build", _build_from_local)
        places.append("_maybe_symbolic_build")
    if _reduces_scalars_over_a_dimension(trainer):
        _override(trainer, "reduce_per_replica", _reduce_over_workers)
        places.append("reduce_per_replica")
    if not places:
        return None
    version = sys.modules["keras"].__version__
    return ANNOUNCEMENT.format(version=version, places=" and ".join(places))


def undo() -> None:
    """Remove the overrides."""
    trainer = _trainer()
    if trainer is None:
        return
    for owner, name in (
        (trainer.TensorFlowTrainer, "_maybe_symbolic_build"),
        (trainer, "reduce_per_replica"),
    ):
        original = getattr(getattr(owner, name, None), "nbdist_original", None)
        if original is not None:
            setattr(owner, name, original)


def _trainer() -> Any | None:
    """Return the module of Keras' TensorFlow trainer, if Keras 3 is installed and runs on TensorFlow; or None.

    Private API: `keras.src.backend.tensorflow.trainer` (Keras 3.15.1). If it is missing, or Keras has another back
    end, nothing is adapted.
    """
    if os.environ.get("TF_USE_LEGACY_KERAS", "0") not in ("1", "true", "True"):
        with contextlib.suppress(ImportError):
            importlib.import_module("keras")
    return sys.modules.get("keras.src.backend.tensorflow.trainer")


def _override(owner: Any, name: str, make: Callable[[Any], Callable[..., Any]]) -> None:
    original = getattr(owner, name)
    override = functools.wraps(original)(make(original))
    override.nbdist_original = original  # type: ignore[attr-defined]
    setattr(owner, name, override)


def _build_from_local(original: Callable[..., Any]) -> Callable[..., Any]:
    def _maybe_symbolic_build(self: Any, iterator: Any = None, data_batch: Any = None) -> None:
        if iterator is not None and self._distribute_strategy is not None:
            for _, _, batches in iterator:
                data_batch = _local_part(self._distribute_strategy, next(batches))
                iterator = None
                break
        original(self, iterator=iterator, data_batch=data_batch)

    return _maybe_symbolic_build


def _local_part(strategy: Any, batch: Any) -> Any:
    from keras import tree

    # Only the shapes and dtypes of the batch are used, so any replica's part will do.
    return tree.map_structure(lambda v: strategy.experimental_local_results(v)[0], batch)


def _reduce_over_workers(original: Callable[..., Any]) -> Callable[..., Any]:
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in ("auto", "mean") or not spans_workers(strategy):
            return original(values, strategy, reduction)
        from keras import tree

        # All workers get the same numbers: callbacks that decide by them must decide alike on all.
        return tree.map_structure(lambda v: strategy.reduce("MEAN", v, axis=None), values)

    return reduce_per_replica


def spans_workers(strategy: Any) -> bool:
    """Return whether this is a `MultiWorkerMirroredStrategy` over several workers.

    Private API: `strategy.extended._in_multi_worker_mode()` (TensorFlow 2.21), which Keras' trainer calls, too.
    If it is missing, the result is False, and Keras works as shipped.
    """
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    asked = getattr(strategy.extended, "_in_multi_worker_mode", None)
    return bool(asked is not None and asked())


def _builds_from_a_reduced_batch(trainer: Any) -> bool:
    """Return whether the trainer gives a whole batch, a structure, to `strategy.reduce`.

    Private API: `TensorFlowTrainer._maybe_symbolic_build(iterator, data_batch)` (Keras 3.15.1).
    If it is missing or has changed, it is not adapted.
    """
    build = getattr(trainer.TensorFlowTrainer, "_maybe_symbolic_build", None)
    if build is None or not _takes(build, "self", "iterator", "data_batch"):
        return False
    noting = _noting_strategy()
    model = _NoModel()
    model._distribute_strategy = model.distribute_strategy = noting
    try:
        build(model, iterator=iter([(0, 0, iter([noting.batch]))]))
    except Exception:  # noqa: BLE001 - code that is not known, on things that stand in for others
        return False
    return any(isinstance(value, tuple) for _, value, _ in noting.asked)


def _reduces_scalars_over_a_dimension(trainer: Any) -> bool:
    """Return whether the trainer asks for the mean of a scalar over its dimension 0.

    Private API: `keras.src.backend.tensorflow.trainer.reduce_per_replica(values, strategy, reduction)`
    (Keras 3.15.1). If it is missing or has changed, it is not adapted.
    """
    reduce = getattr(trainer, "reduce_per_replica", None)
    if reduce is None or not _takes(reduce, "values", "strategy", "reduction"):
        return False
    noting = _noting_strategy()
    try:
        reduce(1.0, noting, "auto")
    except Exception:  # noqa: BLE001 - code that is not known, on things that stand in for others
        return False
    return any(axis == 0 for _, _, axis in noting.asked)


def _takes(function: Any, *names: str) -> bool:
    if hasattr(function, "nbdist_original"):
        return False
    return tuple(inspect.signature(function).parameters) == names


class _NoModel:
    """A stand-in for a model that is to be built."""

    _distribute_strategy: Any
    distribute_strategy: Any

    def _symbolic_build(self, data_batch: Any = None) -> None:
        pass


def _noting_strategy() -> Any:
    """Return a strategy over several workers that notes the requests to reduce, and does nothing."""
    import tensorflow as tf

    class Noting(tf.distribute.MultiWorkerMirroredStrategy):
        def __init__(self) -> None:
            # The base class's `__init__` is not called: it would connect the workers.
            self.asked: list[tuple[str, Any, Any]] = []
            self.batch = (tf.distribute.DistributedValues(),) * 2

        @property
        def extended(self) -> Any:
            return self

        def _in_multi_worker_mode(self) -> bool:
            return True

        def scope(self) -> Any:
            return contextlib.nullcontext()

        def reduce(self, reduce_op: str, value: Any, axis: Any = None) -> Any:
            self.asked.append((reduce_op, value, axis))
            return value

        def experimental_local_results(self, value: Any) -> Any:
            return (value,)

    return Noting()
