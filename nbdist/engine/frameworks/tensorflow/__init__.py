"""TensorFlow on an engine: its capabilities; modules are imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdist.contract.calls.engine import TensorFlowStage
from nbdist.engine.frameworks.framework import Framework

if TYPE_CHECKING:
    from nbdist.contract.calls.engine import Initialized
    from nbdist.engine.frameworks.interfaces import Arrays, Inspection, ThisProcess
    from nbdist.engine.probe.observer import Observer


def _initialize(process: ThisProcess, stage: Any) -> Initialized:
    from nbdist.engine.frameworks.tensorflow.start import initialize

    return initialize(process, stage)


def _arrays() -> Arrays:
    from nbdist.engine.frameworks.tensorflow import observe

    return observe


def _inspection() -> Inspection:
    from nbdist.engine.frameworks.tensorflow.observe import TensorFlowInspection

    return TensorFlowInspection()


def _holds() -> str | None:
    """Return an empty text, for an unknown platform, once TensorFlow has started; None before."""
    from nbdist.engine.frameworks.tensorflow.interrupt import started

    return "" if started() else None


def _observer(main_thread: int, process_id: int) -> Observer:
    from nbdist.engine.frameworks.tensorflow.observe import TensorFlowObserver

    return TensorFlowObserver(main_thread, process_id)


FRAMEWORK = Framework(
    name="tensorflow",
    title="TensorFlow",
    packages=("tensorflow",),
    stage=TensorFlowStage,
    initialize=_initialize,
    arrays=_arrays,
    inspection=_inspection,
    holds=_holds,
    observer=_observer,
    not_saved=(
        "In a cell, use tf.train.Checkpoint with nbdist.keras.checkpoint_dir(FOLDER) on all processes, or "
        "nbdist.keras.Checkpoint for a model of Keras. Nothing was changed."
    ),
)
