"""TensorFlow on an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from nbdist.contract.stages import TensorFlowStage
from nbdist.engine.frameworks.framework import Framework
from nbdist.errors import SessionError

if TYPE_CHECKING:
    from nbdist.contract.calls.arrays import ArraysFound
    from nbdist.contract.calls.engine import Initialized
    from nbdist.engine.frameworks.interfaces import ThisProcess
    from nbdist.engine.probe.observer import Observer
    from nbdist.engine.values.arrays import OfferedArray
    from nbdist.engine.values.incoming import Place


class TensorFlow(Framework):
    """TensorFlow as a framework; modules are imported when a method needs them."""

    name = "tensorflow"
    title = "TensorFlow"
    packages = ("tensorflow",)
    stage = TensorFlowStage

    def initialize(self, process: ThisProcess, stage: Any) -> Initialized:
        """Do one of the two steps of a start: `devices`, then `strategy`."""
        from nbdist.engine.frameworks.tensorflow.start import initialize

        return initialize(process, stage)

    def explain(self, process: ThisProcess, value: Any, expression: str) -> ArraysFound:
        """Return where the copies of one variable lie."""
        from nbdist.engine.frameworks.tensorflow.observe import explain

        return explain(value, expression, process_id=process.process_id)

    def offer_array(self, value: Any, expression: str) -> OfferedArray | None:
        """Return the offer of a variable or tensor of this process, whole; None for anything else."""
        from nbdist.engine.frameworks.tensorflow.observe import offer_array

        return offer_array(value, expression)

    def placed(self, sharding: Any, expression: str) -> Place:
        """Refuse: TensorFlow has no arrays that are made of pieces on several processes."""
        from nbdist.engine.frameworks.tensorflow.observe import placed

        return placed(sharding, expression)

    def refuse_saving(self) -> None:
        """Refuse: TensorFlow has checkpoints of its own.

        Raises:
          SessionError: Always; the text says what to use.
        """
        raise SessionError(
            "Variables of TensorFlow are not saved by shard. In a cell, use tf.train.Checkpoint "
            "with "
            "nbdist.keras.checkpoint_dir(FOLDER) on all processes, or nbdist.keras.Checkpoint "
            "for a model of Keras. "
            "Nothing was changed."
        )

    def holds(self) -> str | None:
        """Return an empty text, for an unknown platform, once TensorFlow has started; None before."""
        from nbdist.engine.frameworks.tensorflow.interrupt import started

        return "" if started() else None

    def observer(self, main_thread: int, process_id: int) -> Observer | None:
        """Return the observer of the strategy in force and its variables."""
        from nbdist.engine.frameworks.tensorflow.observe import TensorFlowObserver

        return TensorFlowObserver(main_thread, process_id)


FRAMEWORK = TensorFlow()
