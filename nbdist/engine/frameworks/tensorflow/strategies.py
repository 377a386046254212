"""The strategy of this process: the devices of all its replicas as a mesh of one axis, and the batch it splits.

The devices are read from metadata, which a strategy has from the moment it is made. Hooks into
`tf.distribute.Strategy` note each strategy that is made (`Remembered`) and each data set that it is given
(`NotedBatches`), on the main thread; reports read both on other threads.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from nbdist.contract.snapshot import Axis, Mesh
from nbdist.engine.frameworks.hooks import Hooked, Unhook, imported, replaced
from nbdist.engine.frameworks.jax.describe import mesh_of

AXIS = "replica"
"""The name of the mesh's one axis."""

DEVICE = re.compile(r"(?:/job:(\w+))?(?:/replica:\d+)?(?:/task:(\d+))?/device:(\w+):(\d+)$", re.I)
"""The pattern of TensorFlow's device names, such as `/job:worker/replica:0/task:1/device:CPU:0`."""


@dataclass(frozen=True, slots=True, eq=False)
class Replicas:
    """The facts about one strategy for a report; does not keep the strategy alive.

    `kind` is the public name of its class. `mesh` has the devices of all replicas of all workers, in order.
    `platform` is the platform of its devices, `"cpu"` or `"gpu"`.
    """

    strategy: weakref.ref[Any]
    kind: str
    workers: int
    mesh: Mesh
    platform: str

    @property
    def count(self) -> int:
        """The number of replicas."""
        return len(self.mesh.devices)


class Remembered(Hooked):
    """The strategy that was made last in this process; written on the main thread, read on others."""

    def __init__(self) -> None:
        self._last: weakref.ref[Any] | None = None
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        self._retired: weakref.WeakSet[Any] = weakref.WeakSet()

    def note(self, strategy: Any) -> None:
        """Note a strategy; ignore TensorFlow's default strategy, which spreads nothing."""
        if not is_default(strategy):
            self._last = weakref.ref(strategy)
            self._made.add(strategy)

    def retire(self) -> None:
        """Mark the strategies made so far as unusable: TensorFlow is about to forget all clusters."""
        self._retired.update(self._made)
        self._made.clear()

    def is_retired(self, strategy: Any) -> bool:
        """Return whether a strategy was made before the last reset."""
        return strategy in self._retired

    def get(self) -> Any | None:
        """Return the strategy; None if it is not alive any more, or none was made."""
        return self._last() if self._last is not None else None

    def placed(self) -> Unhook | None:
        """Place the hook for each strategy that the main thread makes."""
        return hook_strategies(self.note)


REMEMBERED = Remembered()
"""The instance for this process; global, like TensorFlow's own strategy in scope."""


def is_default(strategy: Any) -> bool:
    """Return whether this is TensorFlow's default strategy, in force outside any scope, which spreads nothing."""
    return type(strategy).__name__.startswith("_Default")


def hook_strategies(note: Callable[[Any], None]) -> Unhook | None:
    """Call `note` with each strategy that the main thread makes.

    Returns:
      A function that removes the hook; None while TensorFlow is not (wholly) imported.
    """
    tensorflow = imported("tensorflow")
    if tensorflow is None:
        return None
    base = tensorflow.distribute.Strategy
    original = base.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if threading.current_thread() is threading.main_thread():
            note(self)

    return replaced(base, "__init__", __init__)


def replicas_of(strategy: Any, process_id: int) -> Replicas | None:
    """Return the replicas of a strategy; None if its devices are not known.

    Args:
      strategy: A `tf.distribute.Strategy`.
      process_id: The number of this process; it owns the devices that belong to no worker.

    Private API: `strategy.extended.worker_devices` and `strategy.extended._num_workers` (TensorFlow 2.21).
    There is no public list of a strategy's devices. If they are missing, the strategy is not shown.
    """
    extended = getattr(strategy, "extended", None)
    names = getattr(extended, "worker_devices", None)
    found = [DEVICE.search(name) for name in names or ()]
    if not found or not all(found):
        return None
    indices = [int(match[4]) for match in found if match is not None]
    spans = (found[0][1] or "").lower() in ("worker", "chief")  # type: ignore[index]
    workers = int(getattr(extended, "_num_workers", 1)) if spans else 1
    owners = range(workers) if spans and workers > 1 else (process_id,)
    devices = [f"{owner}:{index}" for owner in owners for index in indices]
    axes = [Axis(name=AXIS, size=len(devices), type="auto")]
    # The class has another name than the public one.
    kind = type(strategy).__name__.replace("CollectiveAllReduce", "MultiWorkerMirrored")
    platform = found[0][3].lower()  # type: ignore[index]
    return Replicas(weakref.ref(strategy), kind, workers, mesh_of(axes, devices), platform)


def key_of(device: str, platform: str, process_id: int) -> str | None:
    """Return the key of a local device from TensorFlow's name for it; None for a device of another platform.

    A process with GPUs shows its GPUs, and leaves out the CPU that feeds them.
    """
    match = DEVICE.search(device)
    if match is None or match[3].lower() != platform:
        return None
    return f"{process_id}:{match[4]}"


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one data set.

    `size` is the number of examples in a batch over all replicas, `of_replicas` the number that each replica gets,
    in order. `auto_shard` says whether TensorFlow splits the data set over workers; None with one worker only.
    """

    size: int
    of_replicas: tuple[int, ...]
    auto_shard: bool | None


class NotedBatches(Hooked):
    """The batches last given to a strategy; written on the main thread, read on others.

    TensorFlow finds the batch size of a data set only when the data set is distributed, by an operation. So nbdist
    runs the same operation at that moment, on the main thread.
    """

    def __init__(self) -> None:
        self._last: tuple[weakref.ref[Any], Batches] | None = None
        self._training_line: dict[CodeType, int] = {}

    def last(self, strategy: Any) -> Batches | None:
        """Return the batches of the data set last given to this strategy to train on; None if none was."""
        noted = self._last
        return noted[1] if noted is not None and noted[0]() is strategy else None

    def given(self, strategy: Any, dataset: Any) -> None:
        """Note a data set that a strategy is about to distribute, unless it is for evaluation."""
        if threading.current_thread() is not threading.main_thread() or is_default(strategy):
            return
        if not self._trains(sys._getframe(1)):
            return
        batches = batches_of(strategy, dataset)
        if batches is not None:
            self._last = weakref.ref(strategy), batches

    def _trains(self, frame: FrameType | None) -> bool:
        """Return whether `fit` gives the data set to train on, or no method of Keras gives it."""
        while frame is not None:
            code = frame.f_code
            if "keras" in code.co_filename and code.co_name in ("fit", "evaluate", "predict"):
                # `fit` distributes the training data before the validation data.
                first = self._training_line.setdefault(code, frame.f_lineno)
                return code.co_name == "fit" and first == frame.f_lineno
            frame = frame.f_back
        return True

    def placed(self) -> Unhook | None:
        """Place the hook for data sets that are given to strategies."""
        return hook_data_sets(self.given)


NOTED = NotedBatches()
"""The instance for this process, as `REMEMBERED`."""


def hook_data_sets(given: Callable[[Any, Any], None]) -> Unhook | None:
    """Call `given` with the strategy and the data set before each data set is distributed.

    Keras and users alike give data sets to `tf.distribute.Strategy.experimental_distribute_dataset`, which is
    public. This method is wrapped, since a strategy does not tell afterwards which data set it was given.

    Returns:
      A function that removes the hook; None while TensorFlow is not (wholly) imported.
    """
    tensorflow = imported("tensorflow")
    if tensorflow is None:
        return None
    name, base = "experimental_distribute_dataset", tensorflow.distribute.Strategy
    original = getattr(base, name)

    @functools.wraps(original)
    def experimental_distribute_dataset(self: Any, dataset: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        given(self, dataset)
        return original(self, dataset, *args, **options)

    return replaced(base, name, experimental_distribute_dataset)


def batches_of(strategy: Any, dataset: Any) -> Batches | None:
    """Return how a strategy will split a data set; None where TensorFlow does not know its batch size.

    Source of the split: `batch_sizes_for_worker` in tensorflow/python/data/experimental/ops/distribute.py.
    """
    tf = sys.modules["tensorflow"]
    size = batch_size(dataset) if isinstance(dataset, tf.data.Dataset) else None
    if size is None:
        return None
    replicas = int(strategy.num_replicas_in_sync)
    least, more = divmod(size, replicas)
    split = (least + 1,) * more + (least,) * (replicas - more)
    policy = dataset.options().experimental_distribute.auto_shard_policy
    several = type(strategy).__name__.startswith(("CollectiveAllReduce", "MultiWorker"))
    return Batches(size, split, policy.name != "OFF" if several else None)


def batch_size(dataset: Any) -> int | None:
    """Return the number of examples in each batch but the last; None where TensorFlow does not know it.

    Private API: `tensorflow.python.data.experimental.ops.distribute.compute_batch_size` (TensorFlow 2.21), with
    which strategies find this number; the shape of a data set has it only with `drop_remainder`. If it is missing,
    no batches are shown.
    """
    tf = sys.modules["tensorflow"]
    module = sys.modules.get("tensorflow.python.data.experimental.ops.distribute")
    compute = getattr(module, "compute_batch_size", None)
    if compute is None or not tf.executing_eagerly():
        return None
    try:
        found = int(compute(dataset))
    except (tf.errors.OpError, ValueError, TypeError, IndexError):
        return None  # not batched: TensorFlow raises its own error when it distributes the data set
    return found if found > 0 else None
