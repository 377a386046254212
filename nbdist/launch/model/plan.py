"""Launch plan, as data: hosts × processes × roles × devices, and who starts the processes there.

A plan says what is to be started; its placement says where, and by which launcher. Process ids are set here: dense
from 0, in the order of hosts and slots, so that the same host and slot always gets the same id.
"""

from __future__ import annotations

import secrets
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from nbdist.errors import OptionError
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.spelling import Placeholder, option

Launcher = Literal["local", "ssh", "tpu", "slurm", "mpi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job that a scheduler or `mpirun` is asked for.

    `command` is its command line, without the number of tasks and the program that they run, `python`.
    `task_variable` is the environment variable in which each task finds its number. `processes` is the number of
    processes, evaluators not counted. `name` is the job's unique name, `allocation` the number of the allocation
    of which it is a step. `near` are addresses of hosts on which it may run. `gpus` says that GPUs are asked for,
    `gpus_divided` that somebody else divides them among the tasks.
    """

    command: tuple[str, ...]
    task_variable: str
    python: str
    processes: int
    name: str = ""
    allocation: str | None = None
    near: tuple[str, ...] = ()
    gpus: bool = False
    gpus_divided: bool = False

    def resized(self, processes: int) -> Job:
        """Return another step of the same allocation with this many tasks; the scheduler places them on nodes."""
        name = f"nbdist-{secrets.token_hex(4)}"
        left = [word for word in self.command if not word.startswith(_OF_TASKS)]
        command = tuple(word.replace(self.name, name) for word in left)
        return replace(self, command=command, processes=processes, name=name)


_OF_TASKS = ("--nodes=", "--ntasks-per-node=")
"""Options of `srun` that would contradict another number of tasks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """Where the processes of a plan run, and who starts them there.

    `hosts` are the hosts asked for by name, empty for this machine alone and if a scheduler chooses; `ssh` says
    how they are reached. `min_hosts` is how many must come up, None: all. `cwd` is the working folder there, None:
    the kernel's own. `sync` are the paths of the user's files that all hosts are to have. `controller_address` is
    an address of this machine that all hosts reach, None: one is found. `tunnel` says that the hosts reach no
    address of this machine, and use the ssh connections to them instead. `remarks` are sentences that a person
    should read about how hosts were found; `ssh_advice` is what to type when ssh is refused.
    """

    launcher: Launcher = "local"
    hosts: tuple[AskedHost, ...] = ()
    ssh: SshOptions | None = None
    job: Job | None = None
    min_hosts: int | None = None
    cwd: str | None = None
    sync: tuple[str, ...] = ()
    controller_address: str | None = None
    tunnel: bool = False
    remarks: tuple[str, ...] = ()
    ssh_advice: str | None = None

    @property
    def forwarded(self) -> tuple[int, ...]:
        """Ports of this machine that ssh forwards; the last is for checks."""
        return self.ssh.forwarded if self.ssh is not None else ()

    @property
    def on_this_machine(self) -> bool:
        """Whether no other machine takes part."""
        return self.job is None and all(host.local for host in self.hosts)


Platform = Literal["cpu", "gpu", "tpu"]
Role = Literal["worker", "evaluator"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedProcess:
    """One process to start.

    `role` and `task_index` are TensorFlow's name for it: `worker` 0 is the chief, and indices count from 0 in each
    role. Cells go to workers unless evaluators are named. `devices` is how many virtual CPU devices it has (None:
    what the platform gives); `local_device_ids` the accelerators of its host it may see (None: all).
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
    """All processes to be started, with the options they share.

    `backend` is what Keras computes with, None if the framework is not Keras. `jax` holds the keyword arguments of
    `jax.distributed.initialize` that a person has given. `addresses` are the addresses that a person has given, as
    `HOST:PORT`: for Keras the coordinator's or one for each process, for TensorFlow one for each process; empty if
    nbdist is to choose them. `environment` is set in each process before its framework is imported; `given` names
    the variables of it that a person gave, `withheld` the variables whose values this kernel does not know.
    `devices_by_flags` says that the XLA_FLAGS of the processes set how many virtual devices each has. `keep` lets
    the processes outlive the kernel.
    """

    processes: tuple[PlannedProcess, ...]
    platform: Platform
    platform_chosen: bool = True
    framework: str = "jax"
    initialize: bool = True
    backend: str | None = None
    coordinator: str | None = None
    addresses: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    given: tuple[str, ...] = ()
    withheld: tuple[str, ...] = ()
    devices_by_flags: bool = False
    jax: Mapping[str, Any] = field(default_factory=dict)
    start_method: Literal["fork", "spawn"] = "fork"
    start_timeout_s: float = 120.0
    placement: Placement = field(default_factory=Placement)
    keep: bool = False

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

    def on(self, host: str) -> tuple[PlannedProcess, ...]:
        """Return the processes of one host."""
        return tuple(process for process in self.processes if process.host == host)

    def placed(self, hosts: Mapping[int, str]) -> Plan:
        """Return this plan with the hosts that a scheduler has chosen, by process id.

        Only then is it known which processes share the accelerators of one host.
        """
        slots: dict[str, int] = {}
        alone = {host for host, count in Counter(hosts.values()).items() if count == 1}
        divided = self.placement.job is not None and self.placement.job.gpus_divided
        processes = []
        for process in self.processes:
            host = hosts[process.process_id]
            slot = slots[host] = slots.get(host, -1) + 1
            ids = process.local_device_ids
            if self.platform == "gpu" and not divided and host not in alone:
                each = len(ids) if ids is not None else 1
                ids = tuple(range(slot * each, (slot + 1) * each))
            processes.append(replace(process, host=host, slot=slot, local_device_ids=ids))
        return replace(self, processes=tuple(processes))

    def resized(self, count: int) -> Plan:
        """Return this plan with `count` equal processes: on its one host, or as tasks of another step."""
        first, job = self.processes[0], self.placement.job
        if job is not None:
            return replace(
                self,
                processes=tuple(
                    replace(first, process_id=task, host=f"task {task}", task_index=task)
                    for task in range(count)
                ),
                placement=replace(self.placement, job=job.resized(count)),
            )
        return replace(
            self,
            processes=tuple(
                replace(first, process_id=number, slot=number, task_index=number)
                for number in range(count)
            ),
        )

    def without(self, host: str) -> Plan:
        """Return this plan without one host; process ids stay dense, so higher ones move down to fill the gap."""
        left = [process for process in self.processes if process.host != host]
        indices: dict[Role, int] = {}
        processes = []
        for process_id, process in enumerate(left):
            index = indices[process.role] = indices.get(process.role, -1) + 1
            processes.append(replace(process, process_id=process_id, task_index=index))
        hosts = tuple(asked for asked in self.placement.hosts if asked.name != host)
        return replace(
            self,
            processes=tuple(processes),
            placement=replace(self.placement, hosts=hosts),
        )


MOST_PROCESSES = 65_536
"""More would take minutes to plan, in a kernel that answers nothing meanwhile."""


def plan_for(
    *,
    hosts: Sequence[tuple[str, int]],
    devices_per_process: int | None,
    platform: Platform,
    accelerators: int | None,
    local_device_ids: Sequence[Sequence[int]] | None = None,
    partition_index: Sequence[int] | None = None,
    evaluators: int = 0,
    **shared: Any,
) -> Plan:
    """Return a plan for hosts, each with its number of processes.

    Args:
      hosts: Each host's name, as shown, and its number of processes, 1 or more, evaluators not counted.
      devices_per_process: On CPU, virtual devices of each process (default 1); on GPU, how many
        each gets (default: all, divided evenly).
      platform: What the processes compute on.
      accelerators: The number of GPUs or TPU chips of a host; not used for CPU. None if unknown: each process
        then gets as many as are asked for.
      local_device_ids: One list of device ids for each process.
      partition_index: One index for each process; all processes or none.
      evaluators: The number of further processes, with the highest ids, on the last host. If accelerators are
        divided, they compute on the CPU, so that they take none from the others.
      **shared: The remaining fields of `Plan`.

    Raises:
      OptionError: Impossible counts, or more devices than there are.
    """
    total = sum(count for _, count in hosts)
    for count in [count for _, count in hosts] or [0]:
        if count < 1:
            raise OptionError(
                f"{option('processes', count)}: the number of processes must be 1 or more."
            )
    if total > MOST_PROCESSES:
        raise OptionError(
            f"{option('processes', total)}: a session can have {MOST_PROCESSES} processes at most."
        )
    if devices_per_process is not None and devices_per_process < 1:
        raise OptionError(
            f"{option('devices_per_process', devices_per_process)}: must be 1 or more, or left out."
        )
    if local_device_ids is not None and len(local_device_ids) != total:
        raise OptionError(
            f"{option('local_device_ids')} gives {len(local_device_ids)} lists for {total} processes. Write one "
            "for each, separated by semicolons, such as 0,1;2,3."
        )
    if partition_index is not None and len(partition_index) != total:
        raise OptionError(
            f"{option('partition_index')} gives {len(partition_index)} indices for {total} processes. JAX wants "
            "one for each process, or none at all."
        )
    devices = (devices_per_process or 1) if platform == "cpu" else None
    workers: list[PlannedProcess] = []
    for host, count in hosts:
        first = len(workers)
        asked = local_device_ids[first : first + count] if local_device_ids is not None else None
        given = _divide(count, devices_per_process, platform, accelerators, asked)
        workers += [
            PlannedProcess(
                process_id=first + slot,
                host=host,
                slot=slot,
                task_index=first + slot,
                devices=devices,
                local_device_ids=given[slot],
                partition_index=partition_index[first + slot] if partition_index else None,
            )
            for slot in range(count)
        ]
    last, beside = hosts[-1]
    others = [
        PlannedProcess(
            process_id=total + i,
            host=last,
            slot=beside + i,
            role="evaluator",
            task_index=i,
            devices=devices,
            local_device_ids=None if platform == "cpu" else (),
        )
        for i in range(evaluators)
    ]
    return Plan(processes=(*workers, *others), platform=platform, **shared)


MAX_CPU_DEVICES = 2048
"""Most CPU devices that a process can hold: JAX numbers those of process p from 2048 × p."""


def _divide(
    processes: int,
    per_process: int | None,
    platform: Platform,
    accelerators: int | None,
    asked: Sequence[Sequence[int]] | None,
) -> list[tuple[int, ...] | None]:
    """Return local device ids of each process of a host; two processes share no accelerator unless asked to."""
    if asked is not None:
        return _as_asked(asked)
    if platform == "cpu":
        if per_process is not None and per_process > MAX_CPU_DEVICES:
            raise OptionError(
                f"{option('devices_per_process', per_process)}: a process can hold {MAX_CPU_DEVICES} cpu "
                "devices at most."
            )
        return [None] * processes
    if platform == "tpu":
        # libtpu divides chips by topology variables, not by ids: one process sees all chips.
        if processes > 1:
            raise OptionError(
                f"{option('processes', processes)} on one TPU host: the chips of a host belong to one process. "
                f"Use {option('processes', 1)}, or divide them with {option('local_device_ids')} and "
                f"{option('environment', {'TPU_VISIBLE_CHIPS': Placeholder('…')})}."
            )
        return [None]
    if accelerators is None:
        if per_process is None and processes == 1:
            return [None]
        accelerators = (per_process or 1) * processes
    each = per_process or accelerators // processes
    if each < 1 or each * processes > accelerators:
        wanted = f"{processes} processes × {max(each, 1)}"
        raise OptionError(
            f"{wanted} gpu = {processes * max(each, 1)}, but this machine has {accelerators}. GPUs are divided, "
            f"never shared: use {option('processes', max(1, accelerators // max(each, 1)))} or fewer, a smaller "
            f"{option('devices_per_process')}, {option('platform', 'cpu')}, or name them with "
            f"{option('local_device_ids')}."
        )
    return [tuple(range(i * each, (i + 1) * each)) for i in range(processes)]


def _as_asked(asked: Sequence[Sequence[int]]) -> list[tuple[int, ...] | None]:
    flat = [number for ids in asked for number in ids]
    doubled = sorted({number for number in flat if flat.count(number) > 1})
    if doubled:
        raise OptionError(
            f"{option('local_device_ids')} names device {doubled[0]} for more than one process of this host; "
            "each device belongs to one process."
        )
    return [tuple(ids) for ids in asked]
