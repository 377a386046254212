"""Parameters that a process needs for one step of joining the others, by framework.

`nbdist.contract.calls.engine.Initialize` carries them as plain data. Only the two halves of the session's
framework know the class: in `nbdist.launch.frameworks` and in `nbdist.engine.frameworks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyStage:
    """Stage of a framework that needs no parameters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxStage:
    """Stage that joins a cluster of JAX.

    Attributes:
      processes: How many there are.
      devices: Virtual CPU devices of this process; None: what the platform gives.
      arguments: Keyword arguments of `jax.distributed.initialize`; None: the user calls it.
      gloo: The address of this host on which gloo is to listen; None: as JAX chooses.
    """

    processes: int
    devices: int | None
    arguments: Mapping[str, Any] | None
    gloo: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class KerasArguments:
    """The arguments of `keras.distribution.initialize`."""

    job_addresses: str
    num_processes: int
    process_id: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KerasStage:
    """Stage that joins a cluster of Keras.

    Attributes:
      backend: The back end that Keras must compute with.
      devices: Virtual CPU devices of this process; None: what the platform gives.
      arguments: None: the user calls `keras.distribution.initialize`.
      jax: Keyword arguments that `jax.distributed.initialize` gets beyond what Keras gives it.
      gloo: The address of this host on which gloo is to listen; None: as JAX chooses.
      late: Whether the others have already joined each other, so that they take no part in Keras' start.
    """

    backend: str
    devices: int | None
    arguments: KerasArguments | None
    jax: Mapping[str, Any]
    gloo: str | None
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesStage:
    """Stage that says which devices TensorFlow has on this process.

    Attributes:
      platform: `"cpu"` hides GPUs.
      devices: Logical CPU devices to make; None: one.
      local_device_ids: The GPUs this process may use; None: all.
    """

    platform: str
    devices: int | None
    local_device_ids: tuple[int, ...] | None
    kind: Literal["devices"] = "devices"


@dataclass(frozen=True, slots=True, kw_only=True)
class StrategyStage:
    """Stage that makes the strategy of TensorFlow.

    Attributes:
      tf_config: `TF_CONFIG`, JSON; None for a process alone.
      role: The role of this process.
      process_id: The id of this process.
      workers: The process ids of all workers, in the order of their tasks.
      again: Whether there was a strategy before, whose cluster is broken; TensorFlow forgets it first.
    """

    tf_config: str | None
    role: Literal["worker", "evaluator"]
    process_id: int
    workers: tuple[int, ...]
    again: bool = False
    kind: Literal["strategy"] = "strategy"


TensorFlowStage = DevicesStage | StrategyStage
