"""The global batch of the data set last given to a strategy, and what each replica gets of it."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(slots=True)
class _Last:
    """Replaced as a whole on the main thread: readers on other threads need no lock."""

    batch: tuple[int, tuple[int, ...]] | None = None
    unhook: Callable[[], None] | None = None


_last = _Last()


def install() -> bool:
    """Has batches noted from now on; a second call changes nothing.

    Keras and users alike hand data sets to `tf.distribute.Strategy.experimental_distribute_dataset`, which is
    public; it is followed, since a strategy does not tell afterwards what it was given.

    Returns:
      Whether it could be done.
    """
    if _last.unhook is not None:
        return True
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or getattr(tensorflow.__spec__, "_initializing", False):
        return False
    strategy: Any = tensorflow.distribute.Strategy
    original = strategy.experimental_distribute_dataset

    @functools.wraps(original)
    def experimental_distribute_dataset(self: Any, dataset: Any, *args: Any, **options: Any) -> Any:
        __tracebackhide__ = True  # from tracebacks that IPython prints
        size = batch_size(dataset)
        if size is not None:
            _last.batch = (size, shares(size, int(self.num_replicas_in_sync)))
        return original(self, dataset, *args, **options)

    strategy.experimental_distribute_dataset = experimental_distribute_dataset

    def unhook() -> None:
        strategy.experimental_distribute_dataset = original

    _last.unhook = unhook
    return True


def uninstall() -> None:
    """Leaves TensorFlow as it was."""
    if _last.unhook is not None:
        _last.unhook()
        _last.unhook = None


def newest() -> tuple[int, tuple[int, ...]] | None:
    """Examples in a global batch, and in each replica's part, in order; None before the first data set."""
    return _last.batch


def batch_size(dataset: Any) -> int | None:
    """The number of examples in a batch of a `tf.data.Dataset`; None where it does not say.

    Private API: `tensorflow.python.data.experimental.ops.distribute.compute_batch_size`, with which strategies
    find it out themselves; a data set's own `element_spec` has it only where the last batch is dropped.
    """
    module = sys.modules.get("tensorflow.python.data.experimental.ops.distribute")
    compute = getattr(module, "compute_batch_size", None)
    if compute is None:
        return None
    try:
        found = int(compute(dataset))
    except (TypeError, ValueError, AttributeError, NotImplementedError):
        return None
    return found if found > 0 else None


def shares(batch: int, replicas: int) -> tuple[int, ...]:
    """How a global batch is dealt out: as evenly as can be, the first replicas getting one more.

    Source: `batch_sizes_for_worker` in tensorflow/python/data/experimental/ops/distribute.py.
    """
    least, more = divmod(batch, replicas)
    return (least + 1,) * more + (least,) * (replicas - more)
