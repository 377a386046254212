"""The start of TensorFlow on an engine: its devices, then its strategy, without messages that nobody needs.

`initialize` does one of these two steps. The first also filters the messages of TensorFlow's C++ (`Chatter`). The
second can be done again after TensorFlow has forgotten its cluster: then models of the earlier strategy are
refused (`refuse_outdated`).
"""

from __future__ import annotations

import functools
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

from nbdist.contract.calls.engine import DevicesStage, Initialized, StrategyStage, TensorFlowStage
from nbdist.engine.frameworks.interfaces import ThisProcess
from nbdist.engine.frameworks.tensorflow import adapt, interrupt, observe
from nbdist.engine.frameworks.tensorflow.interrupt import reset_context
from nbdist.engine.frameworks.tensorflow.strategies import NOTED, REMEMBERED
from nbdist.errors import InputError, SessionError
from nbdist.spelling import command, option

PACKAGES = ("keras", "tf_keras")
METHODS = ("fit", "evaluate", "predict")
MARK = "nbdist_refuses_outdated"
"""The attribute of a method that refuses outdated models."""


def refuse_outdated() -> None:
    """Refuse models whose strategy is gone, in the packages imported by now; a second call changes nothing.

    After a reset, the variables of an older model keep their values, but its metrics are not reset between epochs
    any more, and a collective may meet one of another step (TensorFlow 2.21). Neither raises an error.
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


_LINE = rb"^%b\d{4} [\d:.]+ +\d+ %b:\d+\] %b.*\n?"
_ANY_SOURCE = rb"\S+"

INFORMATION = re.compile(_LINE % (b"I", _ANY_SOURCE, b""), re.M)
"""The pattern of messages on servers and tasks that start, of which `%dist_init` has told the user already."""

CONTINUED = re.compile(
    rb"^(?:/job:\w+/replica:\d+/task:\d+|The error could be from a previous operation\. Restart .*)\n?",
    re.M,
)
"""The pattern of the second line of a message."""

KNOWN = tuple(
    re.compile(_LINE % (level, source, text), re.M)
    for level, source, text in (
        # A machine without a GPU, on which none was asked for.
        (b"E", rb"cuda_platform\.cc", rb"failed call to cuInit"),
        # Caused by Keras' own way to repeat a data set.
        (b"W", rb"dataset\.cc", rb"Input of GeneratorDatasetOp"),
        # Keras reads a batch ahead to build the model; the cache is filled in the first epoch.
        (b"W", rb"cache_dataset_ops\.cc", rb"The calling iterator did not fully read the dataset"),
        # An interrupt has freed the process, and the cell's error says so.
        (b"[EW]", rb"\w+\.cc", rb".*interrupted by nbdist; run %dist_recover"),
        # The end of every data set (https://github.com/tensorflow/tensorflow/issues/62963).
        (b"[IW]", rb"local_rendezvous\.cc", rb".*OUT_OF_RANGE: End of sequence"),
    )
)
"""Patterns of other messages that nobody needs to read."""

AUTO_SHARD = re.compile(
    rb"^[IW]\d{4} [\d:.]+ +\d+ auto_shard\.cc:\d+\] AUTO sharding policy will apply DATA .*\n?"
    # Many lines describe the node of the graph that reads no file.
    rb"(?:^(?!\w\d{4} [\d:.]+ ).*\n?)*",
    re.M,
)
"""The pattern of the message on a data set that is not read from files."""

AUTO_SHARD_SAID = (
    b"The data set is not read from files, so each worker reads all of it and keeps its share of the rows "
    b"(auto-shard policy DATA, which tf.data.Options().experimental_distribute.auto_shard_policy chooses without "
    b"this line).\n"
)
"""The sentence in place of a message that `AUTO_SHARD` matches."""


def follow_standard_error() -> None:
    """Make TensorFlow's Python logger write to the present `sys.stderr`.

    The logger has kept the `sys.stderr` of the process that imported TensorFlow, which is closed since the fork. A
    warning would become "--- Logging error ---" and two stacks.
    """
    import tensorflow as tf

    for handler in tf.get_logger().handlers:
        if isinstance(handler, logging.StreamHandler):
            # `setStream` would flush the old stream.
            handler.stream = sys.stderr


class Chatter:
    """A filter that removes messages which nobody needs to read; called with each new piece of standard error.

    One message is replaced by a sentence that is said once (`AUTO_SHARD_SAID`). TensorFlow's C++ writes to the
    process's standard error. A line begins with the level, the time and the source, such as
    `W0000 00:00:1795178940.708603   21496 dataset.cc:997] …`. Times and thread ids differ, so the lines of several
    processes are never equal, and would be shown for each process.

    Args:
      chief: Whether this process writes the sentence that is said once.
    """

    def __init__(self, *, chief: bool) -> None:
        self._chief = chief
        self._said = False

    def __call__(self, data: bytes) -> bytes:
        """Return `data` without the known messages."""
        data = AUTO_SHARD.sub(self._of_auto_shard, data)
        for pattern in (INFORMATION, CONTINUED, *KNOWN):
            data = pattern.sub(b"", data)
        return data

    def _of_auto_shard(self, match: re.Match[bytes]) -> bytes:
        if not self._chief or self._said:
            return b""
        self._said = True
        return AUTO_SHARD_SAID


def initialize(process: ThisProcess, stage: TensorFlowStage) -> Initialized:
    """Do one of the two steps of a start: `devices`, then `strategy`.

    Raises:
      SessionError: TensorFlow is missing, or has already run something.
    """
    if isinstance(stage, DevicesStage):
        return settle_devices(process, stage)
    return make_strategy(process, stage)


def settle_devices(process: ThisProcess, stage: DevicesStage) -> Initialized:
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


def make_strategy(process: ThisProcess, stage: StrategyStage) -> Initialized:
    """Make the strategy, and put it into the namespace as `strategy`; with `stage.again`, make it anew."""
    tf = _tensorflow(process)
    if stage.tf_config is not None:
        os.environ["TF_CONFIG"] = stage.tf_config
    if stage.again:
        REMEMBERED.retire()
        reset_context()
        refuse_outdated()
    interrupt.install(threading.main_thread().ident or 0)
    NOTED.hook()
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


def _tensorflow(process: ThisProcess) -> Any:
    try:
        import tensorflow
    except ImportError as error:
        raise SessionError(
            f"process {process.process_id} (host {process.host}) cannot import tensorflow: {error}. "
            f"On {process.host} run: pip install 'nbdist[tensorflow]'"
        ) from error
    return tensorflow
