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


# Libraries leave it to the user's program where log lines go; by default nothing is shown.
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
    """Start processes on this machine, or where the options say, and join them to one cluster.

    `%dist_init` has the same options.

    Args:
      processes: How many; by default 2 on CPU, one a GPU, one a host.
      devices_per_process: CPU or GPU devices of each process.
      platform: `"cpu"`, `"gpu"` or `"tpu"`; default: what is found.
      framework: What the processes compute with: `"jax"`, `"keras"` or `"tensorflow"`.
      environment: Variables that are in place before the framework is imported.
      grace_s: Seconds others may stay in a cell in which one process has failed.
      give_up_s: Seconds after its interrupt at which a process that no interrupt reaches is given up.
      recover: Repair processes that are not in step at once; else they wait for `Session.recover`.
      copies_s: After a cell, and at least so many seconds after the last time, parts of arrays that one process
        alone has are copied to the memory of another, so that they outlive it; None: never.
      initialize: Join the processes to one cluster; else the environment is set, and your cells do it.
      check: Compare before each cell what must be equal on all processes, see `Session.run`.
      keep: Let the processes outlive this kernel; `nbdist.attach` goes back to them.
      start_timeout_s: Seconds until all processes must be connected.
      start_method: `"fork"` or `"spawn"`; default: fork where the system allows it.
      backend: Of Keras: `"jax"`, `"tensorflow"` or `"torch"`; default: JAX.
      job_addresses: Of Keras: the coordinator's `HOST:PORT`, or one for each process, separated by commas.
      evaluators: Of TensorFlow: processes beside the workers.
      coordinator: `HOST[:PORT]` at which the processes find each other; default: the first host.
      coordinator_bind_address: Where the coordinator listens; default: the address itself.
      local_device_ids: Ids of the devices that are for each process, one list a process.
      cluster_detection_method: As `jax.distributed.initialize` has it; default: `"deactivate"`.
      initialization_timeout_s: As `jax.distributed.initialize` has it.
      heartbeat_timeout_s: The same.
      shutdown_timeout_s: The same.
      partition_index: One number for each process.
      hosts: Hosts reached with ssh, such as `"h1:2,user@node[01-64]:2"`, `["h1", "h2"]` or `{"h1": 2}`.
      hosts_file: A file with one host a line.
      ssh_config: In place of `~/.ssh/config`.
      remote_python: The hosts' Python; default: the path of this one.
      tpu: The name of a TPU pod; `"here"`: the one this machine is in.
      zone: Of the pod.
      project: Of the pod; default: the one gcloud is set to.
      slurm: `srun` starts the processes, a task each.
      nodes: Of Slurm: the number of hosts.
      ntasks_per_node: Of Slurm: processes of each host.
      partition: Of Slurm; default: its own.
      account: Of Slurm: who is charged.
      time: Of Slurm: a limit such as `"1:30:00"`.
      slurm_options: Any others of `srun`, such as `"--gres=gpu:4"`.
      mpi: `mpirun` starts the processes, a rank each.
      mpirun: Its path; default: that on the kernel's `PATH`.
      mpi_options: Any others of `mpirun`, such as `"--oversubscribe"`.
      min_hosts: Go on when so many hosts come up; default: all must.
      sync: Folders, packages or Python files of yours that all hosts are to have, see `Session.sync_files`.
      cwd: The working folder on the hosts; default: the kernel's.
      controller_address: The address of this machine, as the hosts reach it.
      tunnel: Hosts reach this machine through the ssh connections to them, where they cannot connect to it.
      progress: Called with a stage's words, how many processes (or hosts) have reached it, and how many there are.

    Returns:
      A `Session`, also a context manager that stops what it started.

    Raises:
      OptionError: Something that cannot be; nothing was started.
      LaunchError: It could not be started; nothing is left.
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
    """Take part in a session that runs, or make one of engines that somebody else has started.

    Args:
      word: The id of a session, `last` (the last that was kept), a file, or a profile of ipyparallel's.
      grace_s: As for `start`, as all that follow; default: as the session has it.
      give_up_s: The same.
      check: The same.
      recover: The same.
      copies_s: The same.
      framework: For engines that somebody else has started, as all that follow.
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
      A `Session`. As a context manager it stops what nbdist has kept, and leaves what somebody else has started.

    Raises:
      SessionError: There is no such session or cluster, or its processes are gone; the text says what there is.
      OptionError: An option that a session which runs cannot take.
      LaunchError: Engines cannot be made a session of.
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
    step on all processes, so that they are in step afterwards and nothing of a step is lost. An interrupt waits
    for the next call a second at most. Keras' `fit`, `evaluate` and `predict` do this by themselves before each
    batch. In a process that is not one of a session this does nothing.

    Raises:
      KeyboardInterrupt: The cell was stopped.
    """
    if (resident := _resident()) is not None:
        resident.checkpoint()


def on_recover(hook: Callable[[], object]) -> Callable[[], object]:
    """Register a function that runs on each process that replaces an ended one; a decorator in a cell.

    Such a process gets the names of a process that is still alive. What a process holds for itself, such as open
    files, locks and connections, does not come along: this function makes it again. The function takes no
    arguments and runs on the new process alone, before any other cell, so it must not compute with other
    processes. The report of the repair includes what the function raises. A function of the same name replaces
    the earlier one. In a process that is not part of a session this does nothing.

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

    Only shapes are looked at: neither a session nor a device is needed. `%dist_plan` has the same options.

    Args:
      value: An array, a pytree, what `jax.eval_shape` gives, a model of Flax NNX, a model or optimizer of Keras.
      specs: A tree of `PartitionSpec` or `NamedSharding` in which each stands for all below its place; a list of
        (regular expression, spec) of which the first counts that is found in the path, such as `"mlp/kernel"`; a
        function of the path, or of the path and the shape; a `LayoutMap` or distribution of Keras. Default: those
        that the arrays carry.
      topology: Of the pod, such as `"v5e-256"`, `"v5litepod-256"`, `"v5e:16x16"`, `"v5p:4x4x8"` or `"4x4x4"`.
      slices: So many slices of that topology.
      devices: So many CPU or GPU devices, in place of a topology.
      mesh: The size of each axis, such as `"data=16,model=16"` or `{"data": 16, "model": -1}`, of which -1 takes
        what the others leave; or a mesh of JAX or Keras. Default: that of the specs, else of the arrays.
      memory: Of one device, in bytes or such as `"80GB"`, in powers of 1024; default: that of the chip.
      name: What the value is called.

    Returns:
      An `ArrayPlan`: plain data, `text()`, and a table in a notebook.

    Raises:
      OptionError: An unknown topology, a mesh that does not fit, or specs that are none; says what would do.
      ArrayError: The value has no arrays.
    """
    from nbdist.rehearsal import make_plan, read_where
    from nbdist.spelling import Door, through

    with through(Door.PYTHON):
        where = read_where(topology, slices=slices, devices=devices)
        return make_plan(value, specs, where=where, mesh=mesh, memory=memory, name=name)


def rehearse(topology: str, *, slices: int = 1) -> Pod:
    """Return a description of a pod to compile programs for: whether they fit, and what they send.

    Compiles in this process and takes no device: in `%%dist_rehearse`, in a script of `nbdist rehearse`, and
    where JAX has chosen devices other than TPUs, which stay as they are.

    Args:
      topology: Such as `"v5e:4x4"` or `"v5e-256"`.
      slices: So many slices of that topology.

    Returns:
      A `Pod` with `mesh(data=4, model=4)` and `compile(function, *abstract_arguments)`.

    Raises:
      OptionError: There is no such topology; says which are near.
      RehearsalError: libtpu is not installed or not the one of this JAX, or this process must not load it; says
        what to type.
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
