"""The batch that a strategy splits over its replicas, learned when a data set is given to it.

A data set's batch size is known to TensorFlow only when it is distributed, by an operation; so it is asked on
the main thread at that moment, where TensorFlow asks the same.
"""

from __future__ import annotations

import functools
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any

from nbdist.engine.frameworks.tensorflow.strategies import is_default


@dataclass(frozen=True, slots=True)
class Batches:
    """The batches of one data set.

    `size` is the number of examples in a batch over all replicas, `of_replicas` what each gets of it, in
    order. `auto_shard` says whether TensorFlow splits it over workers; None where there is one only.
    """

    size: int
    of_replicas: tuple[int, ...]
    auto_shard: bool | None


class Noted:
    """What was given to strategies; written on the main thread, read on others."""

    def __init__(self) -> None:
        self._last: tuple[weakref.ref[Any], Batches] | None = None
        self._training_line: dict[CodeType, int] = {}
        self._unhook: Callable[[], None] | None = None

    def last(self, strategy: Any) -> Batches | None:
        """The batches of the data set last given to this strategy to train on."""
        noted = self._last
        return noted[1] if noted is not None and noted[0]() is strategy else None

    def given(self, strategy: Any, dataset: Any) -> None:
        """Notes a data set that a strategy is about to distribute, unless it is for evaluation."""
        if threading.current_thread() is not threading.main_thread() or is_default(strategy):
            return
        if not self._trains(sys._getframe(1)):
            return
        batches = batches_of(strategy, dataset)
        if batches is not None:
            self._last = weakref.ref(strategy), batches

    def _trains(self, frame: FrameType | None) -> bool:
        """Whether it is given by `fit` to train on, or by no method of Keras at all."""
        while frame is not None:
            code = frame.f_code
            if "keras" in code.co_filename and code.co_name in ("fit", "evaluate", "predict"):
                # `fit` distributes the data to train on before any to validate with.
                first = self._training_line.setdefault(code, frame.f_lineno)
                return code.co_name == "fit" and first == frame.f_lineno
            frame = frame.f_back
        return True

    def hook(self) -> None:
        """Begins, once TensorFlow is imported."""
        if self._unhook is None:
            self._unhook = hook_data_sets(self.given)

    def unhook(self) -> None:
        """Leaves TensorFlow as it was."""
        if self._unhook is not None:
            self._unhook()
            self._unhook = None


_NOTED = Noted()


def install() -> None:
    """Has data sets noted that are given to strategies; a second call changes nothing."""
    _NOTED.hook()


def uninstall() -> None:
    """Leaves TensorFlow as it was."""
    _NOTED.unhook()


def last(strategy: Any) -> Batches | None:
    """The batches of the data set last given to this strategy to train on. For any thread."""
    return _NOTED.last(strategy)


def hook_data_sets(given: Callable[[Any, Any], None]) -> Callable[[], None] | None:
    """Has `given` called with strategy and data set before each is distributed.

    Keras and users alike hand data sets to `tf.distribute.Strategy.experimental_distribute_dataset`, which is
    public; it is followed, since a strategy does not say afterwards what it was given.

    Returns:
      A function that takes the hook away; None while TensorFlow is not (wholly) imported.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or getattr(tensorflow.__spec__, "_initializing", False):
        return None
    name, base = "experimental_distribute_dataset", tensorflow.distribute.Strategy
    own, original = vars(base).get(name), getattr(base, name)

    @functools.wraps(original)
    def experimental_distribute_dataset(self: Any, dataset: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        given(self, dataset)
        return original(self, dataset, *args, **options)

    setattr(base, name, experimental_distribute_dataset)

    def unhook() -> None:
        if own is None:  # it was inherited
            delattr(base, name)
        else:
            setattr(base, name, own)

    return unhook


def batches_of(strategy: Any, dataset: Any) -> Batches | None:
    """How a strategy will split a data set; None where TensorFlow does not know its batch size.

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
    """The number of examples in each batch but the last; None where TensorFlow does not know.

    Private API: `tensorflow.python.data.experimental.ops.distribute.compute_batch_size` (TensorFlow 2.21), with
    which strategies find it; the shape of a data set has it only with `drop_remainder`. Gone: no batches
    are shown.
    """
    tf = sys.modules["tensorflow"]
    module = sys.modules.get("tensorflow.python.data.experimental.ops.distribute")
    compute = getattr(module, "compute_batch_size", None)
    if compute is None or not tf.executing_eagerly():
        return None
    try:
        found = int(compute(dataset))
    except (tf.errors.OpError, ValueError, TypeError, IndexError):
        return None  # not batched: distributing it says so
    return found if found > 0 else None
