"""The options of a start: each once, with its type, default, unit and help.

The options of `%dist_init`, the parameters of `nbdist.start` and the page of the documentation are made from them.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any

from nbdist.errors import OptionError
from nbdist.launch.model.framework import framework_names
from nbdist.launch.model.hosts import AskedHost
from nbdist.notation import numbers_in
from nbdist.spelling import flag, option

PROCESSES = "processes"
KERAS = "--framework keras"
TENSORFLOW = "--framework tensorflow (its server listens on every interface)"
JAX = "jax.distributed.initialize"
HOSTS = "hosts, reached with ssh"
TPU = "the workers of a TPU pod, reached with ssh"
SLURM = "a job of Slurm, or a step of the allocation this kernel is in"
MPI = "mpirun of Open MPI, on --hosts"
MANY_HOSTS = "many hosts"

DEFAULT_PROCESSES = 2


def _as_it_is(value: Any) -> Any:
    return value


@dataclass(frozen=True, slots=True, kw_only=True)
class Flag:
    """An option of `%dist_init`.

    Attributes:
      names: Its names, such as `("-n", "--processes")`.
      help: One line.
      group: The heading under which `--help` lists it.
      argparse: More keyword arguments of `ArgumentParser.add_argument`.
      read: Converts argparse's result to the value of the option; raises OptionError.
    """

    names: tuple[str, ...]
    help: str
    group: str
    argparse: Mapping[str, Any]
    read: Callable[[Any], Any]

    @property
    def name(self) -> str:
        """The long name."""
        return self.names[-1]

    @property
    def dest(self) -> str:
        """The name of its attribute in argparse's result."""
        return self.name.removeprefix("--").replace("-", "_")


def _option(
    default: Any,
    help_text: str,
    group: str,
    *names: str,
    read: Callable[[Any], Any] = _as_it_is,
    **argparse: Any,
) -> Any:
    metadata = {
        "help": help_text,
        "group": group,
        "names": names,
        "argparse": argparse,
        "read": read,
    }
    return field(default=default, metadata=metadata)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Return `"0,1"` or `"0-3"` as numbers; empty if there is nothing between the commas.

    Raises:
      OptionError: The text holds anything else.
    """
    parts = [part for part in text.split(",") if part.strip()]
    try:
        return tuple(numbers_in(",".join(parts))) if parts else ()
    except ValueError as error:
        raise OptionError(f"{option} {text!r}: {error}") from None


def environment_of(pairs: Sequence[str]) -> dict[str, str]:
    """Return `["A=1", "B"]` as a dictionary; a name alone stands for this kernel's value.

    Raises:
      OptionError: An entry without a name, or a name alone that is not set here.
    """
    found: dict[str, str] = {}
    for pair in pairs:
        name, sign, value = pair.partition("=")
        if not name:
            raise OptionError(f"--env {pair!r}: expected NAME=VALUE, such as XLA_FLAGS=--xla_…")
        if not sign and name not in os.environ:
            raise OptionError(
                f"--env {name}: this kernel has no such variable. Write --env {name}=VALUE."
            )
        found[name] = value if sign else os.environ[name]
    return found


def _ids(text: str | None) -> list[tuple[int, ...]] | None:
    return [numbers(part, "--local-device-ids") for part in text.split(";")] if text else None


def _index(text: str | None) -> tuple[int, ...] | None:
    return numbers(text, "--partition-index") if text else None


def _not(value: bool) -> bool:
    return not value


def _several(values: Sequence[str] | None) -> tuple[str, ...]:
    return tuple(values or ())


def _environment(pairs: Sequence[str] | None) -> dict[str, str] | None:
    return environment_of(pairs) if pairs else None


@dataclass(frozen=True, slots=True, kw_only=True)
class StartOptions:
    """The options of a start, times in seconds. Making a plan checks them, not this class."""

    processes: int | None = _option(
        None,
        "number of processes (default: 2, or one a GPU)",
        PROCESSES,
        "-n",
        "--processes",
        type=int,
    )
    devices_per_process: int | None = _option(
        None, "cpu or gpu devices of each process", PROCESSES, type=int, metavar="K"
    )
    platform: str | None = _option(
        None, "default: tpu, gpu or cpu, as found", PROCESSES, choices=("cpu", "gpu", "tpu")
    )
    framework: str = _option(
        "jax",
        "what the processes compute with",
        PROCESSES,
        choices=framework_names(),
    )
    environment: Mapping[str, str] | None = _option(
        None,
        "set before the framework is imported; default: the kernel's own value",
        PROCESSES,
        read=_environment,
        action="append",
        metavar="NAME[=VALUE]",
    )
    grace_s: float = _option(
        3.0,
        "seconds others may stay in a cell that failed on one",
        PROCESSES,
        type=float,
        metavar="S",
    )
    give_up_s: float = _option(
        10.0,
        "seconds after which a process that ignores interrupts is given up",
        PROCESSES,
        type=float,
        metavar="S",
    )
    recover: bool = _option(
        True,
        "leave it to %%dist_recover to bring processes in step again",
        PROCESSES,
        read=_not,
        action="store_true",
    )
    copies_s: float | None = _option(
        None,
        "copy arrays after a cell, at most every S seconds; those of one process also to another",
        PROCESSES,
        type=float,
        metavar="S",
    )
    initialize: bool = _option(
        True,
        "set the environment only; leave the framework's initialize to your cells",
        PROCESSES,
        read=_not,
        action="store_true",
    )
    check: bool = _option(
        False,
        "before each cell compare what must be equal on all processes; %%%%dist --no-check does not",
        PROCESSES,
        action="store_true",
    )
    keep: bool = _option(
        False, "let the processes outlive this kernel", PROCESSES, action="store_true"
    )
    start_timeout_s: float = _option(
        120.0, "seconds to connect all", PROCESSES, type=float, metavar="S"
    )
    start_method: str | None = _option(
        None, "default: fork where the system allows it", PROCESSES, choices=("fork", "spawn")
    )
    backend: str | None = _option(
        None, "default: jax", KERAS, choices=("jax", "tensorflow", "torch")
    )
    job_addresses: str | None = _option(
        None,
        "the coordinator's address, or one for each process",
        KERAS,
        metavar="HOST:PORT,…",
    )
    evaluators: int = _option(0, "processes beside the workers", TENSORFLOW, type=int, metavar="N")
    coordinator: str | None = _option(None, "coordinator_address", JAX, metavar="HOST[:PORT]")
    coordinator_bind_address: str | None = _option(
        None, "default: the address itself", JAX, metavar="HOST:PORT"
    )
    local_device_ids: Sequence[Sequence[int]] | None = _option(
        None, "one list for each process", JAX, read=_ids, metavar="0,1;2,3"
    )
    cluster_detection_method: str | None = _option(
        None, "default: deactivate", JAX, metavar="METHOD"
    )
    initialization_timeout_s: int | None = _option(
        None, "JAX's default is 300", JAX, type=int, metavar="S"
    )
    heartbeat_timeout_s: int | None = _option(
        None, "JAX's default is 100", JAX, type=int, metavar="S"
    )
    shutdown_timeout_s: int | None = _option(
        None, "JAX's default is 300", JAX, type=int, metavar="S"
    )
    partition_index: Sequence[int] | None = _option(
        None, "one for each process, or none", JAX, read=_index, metavar="0,0,1,1"
    )
    hosts: str | Sequence[AskedHost | str] | Mapping[str, int] | None = _option(
        None,
        "[USER@]HOST[:PROCESSES], or …:PORT:N; node[01-64,70]:2 are many",
        HOSTS,
        metavar="H1:2,H2:2",
    )
    hosts_file: str | None = _option(None, "the same, line by line", HOSTS, metavar="FILE")
    ssh_config: str | None = _option(None, "in place of ~/.ssh/config", HOSTS, metavar="FILE")
    remote_python: str | None = _option(
        None, "the hosts' Python (default: this one's path)", HOSTS, metavar="PATH"
    )
    tpu: str | None = _option(
        None, "default: the pod this machine is in", TPU, nargs="?", const="here", metavar="NAME"
    )
    zone: str | None = _option(None, "of the name", TPU, metavar="Z")
    project: str | None = _option(None, "default: the one gcloud is set to", TPU, metavar="P")
    slurm: bool = _option(
        False, "srun starts the processes, a task each", SLURM, action="store_true"
    )
    nodes: int | None = _option(
        None, "number of hosts", SLURM, "-N", "--nodes", type=int, metavar="N"
    )
    ntasks_per_node: int | None = _option(
        None, "processes of each host", SLURM, type=int, metavar="N"
    )
    partition: str | None = _option(None, "default: Slurm's own", SLURM, metavar="NAME")
    account: str | None = _option(None, "who is charged", SLURM, metavar="NAME")
    time: str | None = _option(None, "minutes, 1:30:00, 2-12, …", SLURM, metavar="LIMIT")
    slurm_options: Sequence[str] = _option(
        (),
        "any other of srun, such as --gres=gpu:4; may be given again",
        SLURM,
        read=_several,
        action="append",
        metavar="OPTION",
    )
    mpi: bool = _option(False, "mpirun starts the processes, a rank each", MPI, action="store_true")
    mpirun: str | None = _option(None, "default: that on the kernel's PATH", MPI, metavar="PATH")
    mpi_options: Sequence[str] = _option(
        (),
        "any other of mpirun, such as --oversubscribe; may be given again",
        MPI,
        read=_several,
        action="append",
        metavar="OPTION",
    )
    min_hosts: int | None = _option(
        None, "go on when so many come up", MANY_HOSTS, type=int, metavar="N"
    )
    sync: str | Sequence[str] = _option(
        (),
        "your modules: a folder, a package or a .py file; %%dist_sync repeats it",
        MANY_HOSTS,
        read=_several,
        action="append",
        metavar="PATH",
    )
    cwd: str | None = _option(
        None, "working folder there (default: the kernel's)", MANY_HOSTS, metavar="PATH"
    )
    controller_address: str | None = _option(
        None, "of this machine, as the hosts reach it", MANY_HOSTS, metavar="ADDRESS"
    )
    tunnel: bool = _option(
        False,
        "hosts reach this machine through the ssh connections to them",
        MANY_HOSTS,
        action="store_true",
    )

    def chosen(self, names: Sequence[str]) -> dict[str, Any]:
        """Return some of the options, as keyword arguments."""
        return {name: getattr(self, name) for name in names}


def _flag(name: str, default: Any, metadata: Mapping[str, Any]) -> Flag:
    argparse = dict(metadata["argparse"])
    if "action" not in argparse and metadata["read"] is _as_it_is:
        argparse["default"] = default
    return Flag(
        names=metadata["names"] or (flag(name),),
        help=metadata["help"],
        group=metadata["group"],
        argparse=argparse,
        read=metadata["read"],
    )


FLAGS: Mapping[str, Flag] = {
    one.name: _flag(one.name, one.default, one.metadata) for one in fields(StartOptions)
}
"""The flags by the name of the option."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """The rules of a session, as it was started, for every cell that does not say otherwise.

    Attributes:
      grace_s: How many seconds others may stay in a cell in which one process has failed.
      give_up_s: How long a process that ignores interrupts may run on before the cell ends without it.
      check: Whether to compare before each cell what must be equal on all processes.
      recover: Whether processes that are out of step are repaired at once, not only by `%dist_recover`.
      copies_s: Parts of arrays that one process alone has are copied to another after a cell, at least this many
        seconds after the last time; None: never.

    Raises:
      OptionError: A negative number of seconds.
    """

    grace_s: float = 3.0
    give_up_s: float = 10.0
    check: bool = False
    recover: bool = True
    copies_s: float | None = None

    def __post_init__(self) -> None:
        times = (
            ("grace_s", self.grace_s),
            ("give_up_s", self.give_up_s),
            ("copies_s", self.copies_s),
        )
        for name, seconds in times:
            if seconds is not None and not seconds >= 0:
                raise OptionError(f"{option(name, seconds)}: must be 0 or more seconds.")
