"""What a process needs for one step of joining the others, by framework.

`nbdist.contract.calls.engine.Initialize` carries it as plain data: which of these it is only the two halves of
the session's framework know, its module of `nbdist.launch.frameworks` and its room of `nbdist.engine.frameworks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class EmptyStage:
    """For a framework that need not be told anything."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JaxStage:
    """Joins a cluster of JAX.

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
    """Joins a cluster of Keras.

    Attributes:
      backend: What Keras must compute with.
      devices: Virtual CPU devices of this process; None: what the platform gives.
      arguments: None: the user calls `keras.distribution.initialize`.
      jax: Keyword arguments that `jax.distributed.initialize` gets beyond what Keras gives it.
      gloo: The address of this host on which gloo is to listen; None: as JAX chooses.
      late: The others have joined each other before, and take part in nothing that Keras would do at a start.
    """

    backend: str
    devices: int | None
    arguments: KerasArguments | None
    jax: Mapping[str, Any]
    gloo: str | None
    late: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicesStage:
    """Says which devices TensorFlow has on this process.

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
    """Makes the strategy of TensorFlow.

    Attributes:
      tf_config: `TF_CONFIG`, JSON; None for a process alone.
      role: Of this process.
      process_id: Of this process.
      workers: The process ids of all workers, in the order of their tasks.
      again: There was one before, whose cluster is broken; TensorFlow forgets it first.
    """

    tf_config: str | None
    role: Literal["worker", "evaluator"]
    process_id: int
    workers: tuple[int, ...]
    again: bool = False
    kind: Literal["strategy"] = "strategy"


TensorFlowStage = DevicesStage | StrategyStage
