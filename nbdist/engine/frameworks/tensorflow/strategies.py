"""The strategy of this process: the devices of all its replicas, as a mesh of one axis.

All is read from metadata, which a strategy has from the moment it is made.
"""

from __future__ import annotations

import functools
import re
import sys
import threading
import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from nbdist.contract.snapshot import Axis, Mesh
from nbdist.engine.frameworks.jax.meshes import mesh_of

AXIS = "replica"

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


class Remembered:
    """The strategy that was made last in this process; written on the main thread, read on others."""

    def __init__(self) -> None:
        self._last: weakref.ref[Any] | None = None
        self._made: weakref.WeakSet[Any] = weakref.WeakSet()
        self._retired: weakref.WeakSet[Any] = weakref.WeakSet()
        self._unhook: Callable[[], None] | None = None

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

    def hook(self) -> None:
        """Note from now on each strategy that the main thread makes; do nothing until TensorFlow is imported."""
        if self._unhook is None:
            self._unhook = hook_strategies(self.note)

    def unhook(self) -> None:
        """Remove the hook."""
        if self._unhook is not None:
            self._unhook()
            self._unhook = None


REMEMBERED = Remembered()
"""The instance for this process; global, like TensorFlow's own strategy in scope."""


def is_default(strategy: Any) -> bool:
    """Return whether this is TensorFlow's default strategy, in force outside any scope; it spreads nothing."""
    return type(strategy).__name__.startswith("_Default")


def hook_strategies(note: Callable[[Any], None]) -> Callable[[], None] | None:
    """Call `note` with each strategy that the main thread makes.

    Returns:
      A function that removes the hook; None while TensorFlow is not (wholly) imported.
    """
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or getattr(tensorflow.__spec__, "_initializing", False):
        return None
    base = tensorflow.distribute.Strategy
    own, original = vars(base).get("__init__"), base.__init__

    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **options: Any) -> None:
        original(self, *args, **options)
        if threading.current_thread() is threading.main_thread():
            note(self)

    base.__init__ = __init__

    def unhook() -> None:
        if own is None:  # it was inherited
            del base.__init__
        else:
            base.__init__ = own

    return unhook


def replicas_of(strategy: Any, process_id: int) -> Replicas | None:
    """Return the replicas of a strategy; None if its devices are not known.

    Args:
      strategy: A `tf.distribute.Strategy`.
      process_id: The number of this process, which owns devices that are no worker's.

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
