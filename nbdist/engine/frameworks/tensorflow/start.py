"""The start of TensorFlow on an engine: its devices, then its strategy."""

from __future__ import annotations

import os
import threading
from typing import Any

from nbdist.contract.calls.engine import Initialized
from nbdist.contract.stages import DevicesStage, StrategyStage, TensorFlowStage
from nbdist.engine.frameworks.process import Process
from nbdist.engine.frameworks.tensorflow import adapt, batches, interrupt, observe
from nbdist.engine.frameworks.tensorflow.context import reset_context
from nbdist.engine.frameworks.tensorflow.outdated import refuse_outdated
from nbdist.engine.frameworks.tensorflow.strategies import REMEMBERED
from nbdist.engine.frameworks.tensorflow.warnings import Chatter, follow_standard_error
from nbdist.errors import SessionError
from nbdist.spelling import option


def initialize(process: Process, stage: TensorFlowStage) -> Initialized:
    """Do one of the two steps of a start: `devices`, then `strategy`.

    Raises:
      SessionError: TensorFlow is missing, or has already run something.
    """
    if isinstance(stage, DevicesStage):
        return settle_devices(process, stage)
    return make_strategy(process, stage)


def settle_devices(process: Process, stage: DevicesStage) -> Initialized:
    """Set which devices this process has; TensorFlow may start after this step."""
    platform, devices, local_device_ids = stage.platform, stage.devices, stage.local_device_ids
    tf = _tensorflow(process)
    process.descriptors.leave_out(Chatter(chief=process.process_id == 0))
    follow_standard_error()
    gpus = tf.config.list_physical_devices("GPU")
    if platform != "cpu" and not gpus and local_device_ids != ():
        raise SessionError(
            f"TensorFlow {tf.__version__} on process {process.process_id} (host {process.host}) sees no GPU, "
            "though the host has one. Run pip install 'tensorflow[and-cuda]' there, or use "
            f"{option('platform', 'cpu')}."
        )
    wanted = [] if platform == "cpu" else gpus
    if platform != "cpu" and local_device_ids is not None:
        missing = [i for i in local_device_ids if i >= len(gpus)]
        if missing:
            raise SessionError(
                f"process {process.process_id} (host {process.host}) has no GPU {missing[0]}: "
                f"TensorFlow sees {len(gpus)}."
            )
        wanted = [gpus[i] for i in local_device_ids]
    if gpus:
        tf.config.set_visible_devices(wanted, "GPU")
    if devices is not None and devices > 1:
        (cpu,) = tf.config.list_physical_devices("CPU")
        one = tf.config.LogicalDeviceConfiguration()
        tf.config.set_logical_device_configuration(cpu, [one] * devices)
    return Initialized(
        version=tf.__version__,
        process_id=process.process_id,
        local=len(wanted) or devices or 1,
        platform="gpu" if wanted else "cpu",
    )


def make_strategy(process: Process, stage: StrategyStage) -> Initialized:
    """Make the strategy, and put it into the namespace as `strategy`; a second call makes it anew."""
    tf = _tensorflow(process)
    if stage.tf_config is not None:
        os.environ["TF_CONFIG"] = stage.tf_config
    if stage.again:
        REMEMBERED.retire()
        reset_context()
        refuse_outdated()
    interrupt.install(threading.main_thread().ident or 0)
    batches.install()
    several = stage.role == "worker" and len(stage.workers) > 1
    strategy = (
        tf.distribute.MultiWorkerMirroredStrategy()
        if several
        else tf.distribute.MirroredStrategy(local_devices(tf))
    )
    said = adapt.adapt() if strategy.num_replicas_in_sync > 1 else None
    observe.remember(strategy)
    process.shell.user_ns["strategy"] = strategy
    return Initialized(
        process_id=stage.process_id,
        replicas=strategy.num_replicas_in_sync,
        # The strategy's class has another name than the public one.
        strategy="MultiWorkerMirroredStrategy" if several else "MirroredStrategy",
        said=said,
    )


def local_devices(tf: Any) -> list[str]:
    """Return the names of the logical devices that a strategy of this process alone spreads over."""
    gpus = tf.config.list_logical_devices("GPU")
    return [device.name for device in gpus or tf.config.list_logical_devices("CPU")]


def _tensorflow(process: Process) -> Any:
    try:
        import tensorflow
    except ImportError as error:
        raise SessionError(
            f"process {process.process_id} (host {process.host}) cannot import tensorflow: {error}. "
            f"On {process.host} run: pip install 'nbdist[tensorflow]'"
        ) from error
    return tensorflow
