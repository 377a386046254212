"""nbdist: one notebook, every process of a multi-host job, and a live picture of its devices.

In a notebook: `%load_ext nbdist`, then `%dist_init`. In Python: `nbdist.start(…)`.
"""

from __future__ import annotations

import importlib
import logging
import sys
from typing import TYPE_CHECKING, Any

from nbdist.version import __version__

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from nbdist.launch.model.happenings import StartProgress
    from nbdist.launch.model.hosts import AskedHost
    from nbdist.rehearsal import ArrayPlan, Pod, Topology
    from nbdist.session.session import Session


# The user's program decides where a library's log lines go; by default nothing is shown.
logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "Session",
    "__version__",
    "attach",
    "checkpoint",
    "current",
    "on_recover",
    "plan",
    "rehearse",
    "start",
]


def start(
    processes: int | None = None,
    *,
    devices_per_process: int | None = None,
    platform: str | None = None,
    framework: str = "jax",
    environment: Mapping[str, str] | None = None,
    grace_s: float = 3.0,
    give_up_s: float = 10.0,
    recover: bool = True,
    copies_s: float | None = None,
    initialize: bool = True,
    check: bool = False,
    keep: bool = False,
    start_timeout_s: float = 120.0,
    start_method: str | None = None,
    backend: str | None = None,
    job_addresses: str | None = None,
    evaluators: int = 0,
    coordinator: str | None = None,
    coordinator_bind_address: str | None = None,
    local_device_ids: Sequence[Sequence[int]] | None = None,
    cluster_detection_method: str | None = None,
    initialization_timeout_s: int | None = None,
    heartbeat_timeout_s: int | None = None,
    shutdown_timeout_s: int | None = None,
    partition_index: Sequence[int] | None = None,
    hosts: str | Sequence[AskedHost | str] | Mapping[str, int] | None = None,
    hosts_file: str | None = None,
    ssh_config: str | None = None,
    remote_python: str | None = None,
    tpu: str | None = None,
    zone: str | None = None,
    project: str | None = None,
    slurm: bool = False,
    nodes: int | None = None,
    ntasks_per_node: int | None = None,
    partition: str | None = None,
    account: str | None = None,
    time: str | None = None,
    slurm_options: Sequence[str] = (),
    mpi: bool = False,
    mpirun: str | None = None,
    mpi_options: Sequence[str] = (),
    min_hosts: int | None = None,
    sync: str | Sequence[str] = (),
    cwd: str | None = None,
    controller_address: str | None = None,
    tunnel: bool = False,
    progress: StartProgress | None = None,
) -> Session:
    """Start processes, on this machine or on the hosts that the options name, and join them to one cluster.

    `%dist_init` has the same options.

    Args:
      processes: The number of processes; default: 2 on CPU, one for each GPU, one for each host.
      devices_per_process: CPU or GPU devices of each process.
      platform: `"cpu"`, `"gpu"` or `"tpu"`; default: what is found.
      framework: What the processes compute with: `"jax"`, `"keras"` or `"tensorflow"`.
      environment: Variables that are in place before the framework is imported.
      grace_s: Seconds for which other processes may stay in a cell after one process has failed in it.
      give_up_s: Seconds after an interrupt at which a process that does not react to it is given up.
      recover: Repair processes that are out of step at once; else they wait for `Session.recover`.
      copies_s: The fewest seconds between two copyings. After a cell, parts of arrays that only one process has
        are copied to the memory of another, so that they outlive the process; None: never.
      initialize: Join the processes to one cluster; else the environment is set, and your cells do it.
      check: Before each cell, compare what must be equal on all processes; see `Session.run`.
      keep: Let the processes outlive this kernel; `nbdist.attach` connects to them again.
      start_timeout_s: Seconds until all processes must be connected.
      start_method: `"fork"` or `"spawn"`; default: fork where the system allows it.
      backend: Of Keras: `"jax"`, `"tensorflow"` or `"torch"`; default: JAX.
      job_addresses: Of Keras: the coordinator's `HOST:PORT`, or one for each process, separated by commas.
      evaluators: Of TensorFlow: processes beside the workers.
      coordinator: `HOST[:PORT]` at which the processes find each other; default: the first host.
      coordinator_bind_address: Where the coordinator listens; default: the address itself.
      local_device_ids: Ids of the devices of each process, one list for each process.
      cluster_detection_method: As `jax.distributed.initialize` has it; default: `"deactivate"`.
      initialization_timeout_s: As `jax.distributed.initialize` has it.
      heartbeat_timeout_s: The same.
      shutdown_timeout_s: The same.
      partition_index: One number for each process.
      hosts: Hosts reached with ssh, such as `"h1:2,user@node[01-64]:2"`, `["h1", "h2"]` or `{"h1": 2}`.
      hosts_file: A file with one host a line.
      ssh_config: A file to use in place of `~/.ssh/config`.
      remote_python: The path of Python on the hosts; default: the path of this Python.
      tpu: The name of a TPU pod; `"here"`: the pod of this machine.
      zone: The zone of the pod.
      project: The project of the pod; default: the one gcloud is set to.
      slurm: Start the processes with `srun`, one task for each.
      nodes: Of Slurm: the number of hosts.
      ntasks_per_node: Of Slurm: processes of each host.
      partition: Of Slurm; default: its own.
      account: Of Slurm: the account to charge.
      time: Of Slurm: a time limit such as `"1:30:00"`.
      slurm_options: Any other options of `srun`, such as `"--gres=gpu:4"`.
      mpi: Start the processes with `mpirun`, one rank for each.
      mpirun: The path of `mpirun`; default: the one on the kernel's `PATH`.
      mpi_options: Any other options of `mpirun`, such as `"--oversubscribe"`.
      min_hosts: The fewest hosts with which the start goes on; default: all hosts.
      sync: Your folders, packages or Python files to copy to all hosts; see `Session.sync_files`.
      cwd: The working folder on the hosts; default: the kernel's.
      controller_address: The address of this machine, as the hosts reach it.
      tunnel: Let hosts that cannot connect to this machine reach it through the ssh connections to them.
      progress: Called with a stage's text, how many processes (or hosts) have reached it, and how many there are.

    Returns:
      A `Session`, also a context manager that stops what it started.

    Raises:
      OptionError: An option is impossible; nothing was started.
      LaunchError: The start failed; no process is left running.
    """
    options = dict(locals())
    from nbdist.launch.model.start_options import StartOptions
    from nbdist.spelling import Door, through
    from nbdist.starting import start_session

    del options["progress"]
    with through(Door.PYTHON):
        return start_session(StartOptions(**options), progress=progress)


def attach(
    word: str = "last",
    *,
    grace_s: float | None = None,
    give_up_s: float | None = None,
    check: bool | None = None,
    recover: bool | None = None,
    copies_s: float | None = None,
    framework: str | None = None,
    backend: str | None = None,
    platform: str | None = None,
    environment: Mapping[str, str] | None = None,
    initialize: bool | None = None,
    devices_per_process: int | None = None,
    initialization_timeout_s: int | None = None,
    heartbeat_timeout_s: int | None = None,
    shutdown_timeout_s: int | None = None,
    progress: StartProgress | None = None,
) -> Session:
    """Attach to a running session, or make a session of engines that somebody else has started.

    Args:
      word: The id of a session, `last` (the last that was kept), a file, or a profile of ipyparallel's.
      grace_s: As for `start`, like the next four; default: the session's own value.
      give_up_s: The same.
      check: The same.
      recover: The same.
      copies_s: The same.
      framework: Only for engines that somebody else has started, like all arguments up to `progress`.
      backend: Of Keras: `"jax"`, `"tensorflow"` or `"torch"`; default: JAX.
      platform: `"cpu"`, `"gpu"` or `"tpu"`; default: what is found.
      environment: Variables that are in place before the framework is imported.
      initialize: Join the processes to one cluster; else the environment is set, and your cells do it.
      devices_per_process: CPU or GPU devices of each process.
      initialization_timeout_s: As `jax.distributed.initialize` has it.
      heartbeat_timeout_s: The same.
      shutdown_timeout_s: The same.
      progress: As for `start`.

    Returns:
      A `Session`. As a context manager it stops processes that nbdist kept, and leaves others running.

    Raises:
      SessionError: No such session or cluster, or its processes are gone; the message lists the existing ones.
      OptionError: An option cannot be changed in a running session.
      LaunchError: No session can be made of the engines.
    """
    options = {name: value for name, value in locals().items() if value is not None}
    from nbdist.spelling import Door, through
    from nbdist.starting import attach_session

    with through(Door.PYTHON):
        return attach_session(options.pop("word"), **options)


def _resident() -> Any | None:
    """Return what an engine keeps for the kernel; None in a process that is not one of a session."""
    module = sys.modules.get("nbdist.engine.kernel.resident")
    return None if module is None else module.Resident.there()


def checkpoint() -> None:
    """Let all processes leave a loop together, before the same step. Call it once a step, on all processes.

    An interrupt, and `%dist_interrupt --stop-at-step`, are raised here as `KeyboardInterrupt`, before the same
    step on all processes, so that they are in step afterwards and nothing of a step is lost. An interrupt waits at
    most one second for the next call. Keras' `fit`, `evaluate` and `predict` do this by themselves before each
    batch. In a process that is not one of a session this does nothing.

    Raises:
      KeyboardInterrupt: The cell was stopped.
    """
    if (resident := _resident()) is not None:
        resident.checkpoint()


def on_recover(hook: Callable[[], object]) -> Callable[[], object]:
    """Register a function that runs on each process that replaces an ended one; a decorator in a cell.

    Such a process gets the names of a process that is still alive. Open files, locks, connections and the like
    cannot be transferred: this function makes them again. The function takes no arguments and runs on the new
    process alone, before any other cell, so it must not compute with other processes. The report of the repair
    includes what the function raises. A function of the same name replaces the earlier one. In a process that is
    not part of a session this does nothing.

    Args:
      hook: The function.

    Returns:
      The function.
    """
    if (resident := _resident()) is not None:
        resident.hooks[getattr(hook, "__qualname__", repr(hook))] = hook
    return hook


def plan(
    value: Any,
    specs: Any = None,
    *,
    topology: str | Topology | None = None,
    slices: int = 1,
    devices: int | None = None,
    mesh: Any = None,
    memory: str | int | None = None,
    name: str = "value",
) -> ArrayPlan:
    """Return what each device of a pod would hold of an array, a tree or a model.

    Only shapes are used: neither a session nor a device is needed. `%dist_plan` has the same options.

    Args:
      value: An array, a pytree, a result of `jax.eval_shape`, a Flax NNX model, a Keras model or optimizer.
      specs: A tree of `PartitionSpec` or `NamedSharding`, each of which applies to all arrays below its place; a
        list of (regular expression, spec), of which the first whose expression is found in the path, such as
        `"mlp/kernel"`, applies; a function of the path, or of the path and the shape; a Keras `LayoutMap` or
        distribution. Default: the arrays' own.
      topology: The pod's topology, such as `"v5e-256"`, `"v5litepod-256"`, `"v5e:16x16"`, `"v5p:4x4x8"` or
        `"4x4x4"`.
      slices: So many slices of that topology.
      devices: The number of CPU or GPU devices, in place of a topology.
      mesh: The size of each axis, such as `"data=16,model=16"` or `{"data": 16, "model": -1}`, where -1 takes the
        devices that the others leave; or a mesh of JAX or Keras. Default: the mesh of the specs, else of the
        arrays.
      memory: Memory of one device, in bytes or as `"80GB"` (powers of 1024); default: the chip's.
      name: The name to show for the value.

    Returns:
      An `ArrayPlan`: plain data, `text()`, and a table in a notebook.

    Raises:
      OptionError: The topology is unknown, the mesh does not fit, or the specs are not specs; says what would
        work.
      ArrayError: The value has no arrays.
    """
    from nbdist.rehearsal import make_plan, read_where
    from nbdist.spelling import Door, through

    with through(Door.PYTHON):
        where = read_where(topology, slices=slices, devices=devices)
        return make_plan(value, specs, where=where, mesh=mesh, memory=memory, name=name)


def rehearse(topology: str, *, slices: int = 1) -> Pod:
    """Return a pod for which programs can be compiled, to see whether they fit and what they send.

    Compiles in this process and takes no device. It can be used in `%%dist_rehearse`, in a script of `nbdist
    rehearse`, and in a process in which JAX has chosen devices other than TPUs; these stay as they are.

    Args:
      topology: The pod's topology, such as `"v5e:4x4"` or `"v5e-256"`.
      slices: So many slices of that topology.

    Returns:
      A `Pod` with `mesh(data=4, model=4)` and `compile(function, *abstract_arguments)`.

    Raises:
      OptionError: There is no such topology; the message names near ones.
      RehearsalError: libtpu is not installed or is not the version for this JAX, or this process must not load it;
        the message says what to type.
    """
    from nbdist.spelling import Door, through

    with through(Door.PYTHON):
        from nbdist.rehearsal import pod_here

        return pod_here(topology, slices=slices)


def current() -> Session | None:
    """Return the session of this notebook.

    Returns:
      The session that `%dist_init` started, which is not `alive` once it has ended; None outside IPython, and
      before the first.
    """
    from IPython import get_ipython

    shell = get_ipython()
    magics = shell.magics_manager.registry.get("DistMagics") if shell else None
    return magics.session if magics else None


def __getattr__(name: str) -> Any:
    if name == "Session":
        from nbdist.session.session import Session

        return Session
    if name in ("keras", "tensorflow"):
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Register the magics; `%load_ext nbdist` calls this. Starts nothing."""
    from nbdist.magics.commands import load

    load(shell)


def unload_ipython_extension(shell: Any) -> None:
    """Remove the magics; `%unload_ext nbdist` calls this, and `%reload_ext nbdist` before it loads again.

    A running session goes on, and the next `%load_ext nbdist` finds it.
    """
    from nbdist.magics.commands import unload

    unload(shell)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    return [{"src": "labextension", "dest": "nbdist-labextension"}]
