"""TensorFlow on an engine: its capabilities; modules are imported when one is asked for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from nbdist.contract.calls.engine import TensorFlowStage
from nbdist.engine.frameworks import Beside, Framework


def _holds() -> str | None:
    """Return an empty text, for an unknown platform, once TensorFlow has started; None before."""
    from nbdist.engine.frameworks.tensorflow.interrupt import started

    return "" if started() else None


BESIDE = Beside(__name__)

FRAMEWORK = Framework(
    name="tensorflow",
    title="TensorFlow",
    packages=("tensorflow",),
    stage=TensorFlowStage,
    initialize=BESIDE.function("start", "initialize"),
    arrays=BESIDE.module("observe"),
    inspection=BESIDE.function("observe", "TensorFlowInspection"),
    holds=_holds,
    observer=BESIDE.function("observe", "TensorFlowObserver"),
    not_saved=(
        "In a cell, use tf.train.Checkpoint with nbdist.keras.checkpoint_dir(FOLDER) on all processes, or "
        "nbdist.keras.Checkpoint for a model of Keras. Nothing was changed."
    ),
)

if TYPE_CHECKING:
    from nbdist.engine.frameworks.interfaces import Arrays
    from nbdist.engine.frameworks.tensorflow import observe

    # A name is not looked up by a type checker: this module is what the field above is to have.
    CHECKED: Arrays = observe
