"""`fit`, `evaluate` and `predict` of Keras 3 under `MultiWorkerMirroredStrategy`, and on uneven batches.

As shipped (Keras 3.15.1) two places of Keras' TensorFlow trainer fail there. Building the model reduces the
first batch, which fails over several workers, and on one where the replicas' parts differ in size. The numbers
of each step, scalars, are reduced over a dimension they do not have, over several workers. The first is given
one replica's part of the batch, of which only shapes are used; the second the mean over replicas that it says
it computes.

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
    """Puts the overrides in place where the installed Keras needs them; a second call changes nothing.

    Imports Keras, unless `tf.keras` is to be the legacy one: an override must be there before it is used.

    What needs them is found by trying, not by version: each function is run once on a strategy that only
    notes what it is asked. That runs no operation, so a strategy can still be made afterwards.

    Returns:
      One line that says what was adapted; None where nothing was: already done, Keras does not run on
      TensorFlow, or works by itself.
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
    """Leaves Keras as it was."""
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
    """The module of Keras' TensorFlow trainer, if Keras 3 is installed and runs on TensorFlow.

    Private API: `keras.src.backend.tensorflow.trainer` (Keras 3.15.1). Gone, or another back end: nothing
    is adapted.
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

    # Of a batch only shapes and dtypes are used, so that of any replica will do.
    return tree.map_structure(lambda v: strategy.experimental_local_results(v)[0], batch)


def _reduce_over_workers(original: Callable[..., Any]) -> Callable[..., Any]:
    def reduce_per_replica(values: Any, strategy: Any, reduction: str) -> Any:
        if reduction not in ("auto", "mean") or not spans_workers(strategy):
            return original(values, strategy, reduction)
        from keras import tree

        # Not this worker's own numbers: callbacks that decide by them must decide alike on all.
        return tree.map_structure(lambda v: strategy.reduce("MEAN", v, axis=None), values)

    return reduce_per_replica


def spans_workers(strategy: Any) -> bool:
    """Whether this is a `MultiWorkerMirroredStrategy` over several workers.

    Private API: `strategy.extended._in_multi_worker_mode()` (TensorFlow 2.21), as Keras' trainer asks.
    Gone: nothing spans workers, and Keras does as shipped.
    """
    import tensorflow as tf

    if not isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
        return False
    asked = getattr(strategy.extended, "_in_multi_worker_mode", None)
    return bool(asked is not None and asked())


def _builds_from_a_reduced_batch(trainer: Any) -> bool:
    """Whether the trainer gives a whole batch, a structure, to `strategy.reduce`.

    Private API: `TensorFlowTrainer._maybe_symbolic_build(iterator, data_batch)` (Keras 3.15.1).
    Gone or changed: it is left alone.
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
    """Whether the trainer asks for the mean of a scalar over its dimension 0.

    Private API: `keras.src.backend.tensorflow.trainer.reduce_per_replica(values, strategy, reduction)`
    (Keras 3.15.1). Gone or changed: it is left alone.
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
    """Stands in for a model that is to be built."""

    _distribute_strategy: Any
    distribute_strategy: Any

    def _symbolic_build(self, data_batch: Any = None) -> None:
        pass


def _noting_strategy() -> Any:
    """A strategy over several workers that notes what it is asked to reduce, and does nothing."""
    import tensorflow as tf

    class Noting(tf.distribute.MultiWorkerMirroredStrategy):
        def __init__(self) -> None:
            # Not the base's, which would connect the workers.
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
