"""The start of TensorFlow on an engine: its devices, then its strategy; needless messages are filtered out.

`initialize` does one of these two steps. The first also filters the messages of TensorFlow's C++ (`Chatter`). The
second can be done again after TensorFlow has forgotten its cluster: then models of the earlier strategy are
refused (`refuse_outdated`).

With a strategy, `adapt` replaces two functions of Keras' TensorFlow trainer that fail over several workers and on
uneven batches as shipped (Keras 3.15.1):

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
import logging
import os
import re
import sys
import threading
from collections.abc import Callable
from typing import Any

from nbdist.contract.calls.engine import DevicesStage, Initialized, StrategyStage, TensorFlowStage
from nbdist.engine.frameworks.interfaces import ThisProcess
from nbdist.engine.frameworks.tensorflow import interrupt, observe
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
"""The pattern of messages on servers and tasks that start, of which `%dist_init` has informed the user already."""

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
        # Printed when an interrupt has freed the process; the cell's error says so already.
        (b"[EW]", rb"\w+\.cc", rb".*interrupted by nbdist; run %dist_recover"),
        # The end of every data set (https://github.com/tensorflow/tensorflow/issues/62963).
        (b"[IW]", rb"local_rendezvous\.cc", rb".*OUT_OF_RANGE: End of sequence"),
    )
)
"""Patterns of other needless messages."""

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
    """A filter that removes needless messages; called with each new piece of standard error.

    One message is replaced by a sentence that is written once (`AUTO_SHARD_SAID`). TensorFlow's C++ writes to the
    process's standard error. A line begins with the level, the time and the source, such as
    `W0000 00:00:1795178940.708603   21496 dataset.cc:997] …`. Times and thread ids differ, so the lines of several
    processes are never equal, and would be shown for each process.

    Args:
      chief: Whether this process writes that sentence.
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
    """Set the devices of this process; TensorFlow may start once this is done."""
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
    said = adapt() if strategy.num_replicas_in_sync > 1 else None
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


ANNOUNCEMENT = (
    "Keras {version} as shipped cannot fit under MultiWorkerMirroredStrategy, nor batches that replicas do not "
    "divide (keras-team/keras#20585); nbdist adapts {places} of its TensorFlow trainer in this session."
)


def adapt() -> str | None:
    """Put the overrides in place where the installed Keras needs them; a second call changes nothing.

    Imports Keras, unless `tf.keras` is to be the legacy one: an override must be there before Keras is used.

    A trial decides which overrides are needed, not Keras' version: each function is run once on a stand-in
    strategy that only notes the requests. The trial runs no operation, so a strategy can still be made afterwards.

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
