"""The launch plan: hosts × processes × roles × devices, as data.

A plan says what is to be started, and nothing of how. Process ids come from here: dense from 0, in
the order of hosts and slots, so that the same host and slot always gets the same id.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from nbdist.errors import OptionError

Platform = Literal["cpu", "gpu", "tpu"]
Framework = Literal["jax", "keras", "tensorflow"]
Role = Literal["worker", "evaluator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProcess:
    """One process to start.

    `role` and `task_index` are what TensorFlow calls it: `worker` 0 is the chief, and indices count from 0
    in each role. Cells go to workers unless evaluators are named. `devices` is how many virtual CPU devices
    it has (None: what the platform gives); `local_device_ids` the accelerators of its host it may see (None:
    all).
    """

    process_id: int
    host: str
    slot: int
    role: Role = "worker"
    task_index: int = 0
    devices: int | None = None
    local_device_ids: tuple[int, ...] | None = None
    partition_index: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """All that is to be started, with the options every process shares.

    `backend` is what Keras computes with, None where Keras is not asked for. `jax` holds the keyword
    arguments of `jax.distributed.initialize` that were asked for by name; `addresses` are those asked for, as
    `HOST:PORT`: for Keras the coordinator alone or one for each process, for TensorFlow one for each
    process, empty where they are to be chosen. `environment` is in place in each process before its framework
    is imported.
    """

    processes: tuple[PlannedProcess, ...]
    platform: Platform
    platform_chosen: bool = True
    framework: Framework = "jax"
    initialize: bool = True
    backend: str | None = None
    coordinator: str | None = None
    addresses: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    jax: Mapping[str, Any] = field(default_factory=dict)
    start_method: Literal["fork", "spawn"] = "fork"
    start_timeout_s: float = 120.0

    @property
    def hosts(self) -> dict[int, str]:
        """Host name by process id."""
        return {process.process_id: process.host for process in self.processes}

    @property
    def roles(self) -> dict[int, Role]:
        """Role by process id."""
        return {process.process_id: process.role for process in self.processes}

    @property
    def workers(self) -> tuple[PlannedProcess, ...]:
        """The processes that compute in step."""
        return tuple(process for process in self.processes if process.role == "worker")

    @property
    def named(self) -> dict[str, tuple[int, ...]]:
        """Process ids by role, where the framework has roles."""
        if self.framework != "tensorflow":
            return {}
        workers = tuple(process.process_id for process in self.workers)
        evaluators = tuple(sorted(self.hosts.keys() - set(workers)))
        return {"worker": workers, "chief": workers[:1], "evaluator": evaluators}

    def task(self, process: PlannedProcess) -> str | None:
        """What the framework calls a process, such as `"worker 0, chief"`; None where it has no such names."""
        if self.framework != "tensorflow":
            return None
        chief = ", chief" if process.role == "worker" and process.task_index == 0 else ""
        return f"{process.role} {process.task_index}{chief}"


def local_plan(
    *,
    host: str,
    processes: int,
    devices_per_process: int | None,
    platform: Platform,
    accelerators: int,
    local_device_ids: Sequence[Sequence[int]] | None = None,
    partition_index: Sequence[int] | None = None,
    evaluators: int = 0,
    **shared: Any,
) -> Plan:
    """A plan for one machine.

    Args:
      host: This machine's name, as shown.
      processes: Number of processes, 1 or more, evaluators not counted.
      devices_per_process: On CPU, virtual devices of each process (default 1); on GPU, how many
        each gets (default: all, divided evenly).
      platform: What the processes compute on.
      accelerators: GPUs or TPU chips of this machine; not read for CPU.
      local_device_ids: One list of device ids for each process.
      partition_index: One index for each process; all processes or none.
      evaluators: Processes beside those, with the highest ids; they compute on the CPU where accelerators
        are divided, so that they take none from the others.
      **shared: The remaining fields of `Plan`.

    Raises:
      OptionError: Counts that cannot be, or more devices than there are.
    """
    if processes < 1:
        raise OptionError(f"-n {processes}: the number of processes must be 1 or more.")
    if devices_per_process is not None and devices_per_process < 1:
        raise OptionError(
            f"--devices-per-process {devices_per_process}: must be 1 or more, or left out."
        )
    given = _divide(processes, devices_per_process, platform, accelerators, local_device_ids)
    if partition_index is not None and len(partition_index) != processes:
        raise OptionError(
            f"--partition-index gives {len(partition_index)} indices for {processes} processes. "
            "JAX wants one for each process, or none at all."
        )
    workers = tuple(
        PlannedProcess(
            process_id=i,
            host=host,
            slot=i,
            task_index=i,
            devices=(devices_per_process or 1) if platform == "cpu" else None,
            local_device_ids=given[i],
            partition_index=partition_index[i] if partition_index is not None else None,
        )
        for i in range(processes)
    )
    beside = tuple(
        PlannedProcess(
            process_id=processes + i,
            host=host,
            slot=processes + i,
            role="evaluator",
            task_index=i,
            devices=(devices_per_process or 1) if platform == "cpu" else None,
            local_device_ids=None if platform == "cpu" else (),
        )
        for i in range(evaluators)
    )
    return Plan(processes=workers + beside, platform=platform, **shared)


MAX_CPU_DEVICES = 2048
"""JAX numbers the CPU devices of process p from 2048 × p, so a process can hold no more."""


def _divide(
    processes: int,
    per_process: int | None,
    platform: Platform,
    accelerators: int,
    asked: Sequence[Sequence[int]] | None,
) -> list[tuple[int, ...] | None]:
    """Local device ids of each process; no accelerator goes to two processes unasked."""
    if asked is not None:
        return _as_asked(processes, asked)
    if platform == "cpu":
        if per_process is not None and per_process > MAX_CPU_DEVICES:
            raise OptionError(
                f"--devices-per-process {per_process}: a process can hold {MAX_CPU_DEVICES} cpu "
                "devices at most."
            )
        return [None] * processes
    if platform == "tpu":
        # libtpu divides chips by topology variables, not by ids: one process sees all chips.
        if processes > 1:
            raise OptionError(
                f"-n {processes} on one TPU host: the chips of a host belong to one process. "
                "Use -n 1, or divide them with --local-device-ids and --env TPU_VISIBLE_CHIPS=… ."
            )
        return [None]
    each = per_process or accelerators // processes
    if each < 1 or each * processes > accelerators:
        wanted = f"{processes} processes × {max(each, 1)}"
        raise OptionError(
            f"{wanted} gpu = {processes * max(each, 1)}, but this machine has {accelerators}. GPUs are "
            f"divided, never shared: use -n {max(1, accelerators // max(each, 1))} or fewer, "
            "a smaller --devices-per-process, --platform cpu, or name them with --local-device-ids."
        )
    return [tuple(range(i * each, (i + 1) * each)) for i in range(processes)]


def _as_asked(processes: int, asked: Sequence[Sequence[int]]) -> list[tuple[int, ...] | None]:
    if len(asked) != processes:
        raise OptionError(
            f"--local-device-ids gives {len(asked)} lists for {processes} processes. "
            "Write one for each, separated by semicolons, such as 0,1;2,3."
        )
    flat = [number for ids in asked for number in ids]
    doubled = sorted({number for number in flat if flat.count(number) > 1})
    if doubled:
        raise OptionError(
            f"--local-device-ids names device {doubled[0]} for more than one process of this host; "
            "each device belongs to one process."
        )
    return [tuple(ids) for ids in asked]
