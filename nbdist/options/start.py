"""The options of a start, and what they stand for in Python."""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from typing import Any

from nbdist import ranges
from nbdist.errors import OptionError
from nbdist.launch.sessions.resolve import option_name
from nbdist.options.hosts import host_options, job_options
from nbdist.options.parser import Parser


def dist_init() -> Parser:
    """`%dist_init`."""
    parser = Parser(
        "%dist_init",
        "Start processes, connect them, and form one cluster.",
        example="%dist_init -n 4 --devices-per-process 2",
    )
    add = parser.add_argument
    add("-n", "--processes", type=int, help="number of processes (default: 2, or one a GPU)")
    add("--devices-per-process", type=int, metavar="K", help="cpu or gpu devices of each process")
    add("--platform", choices=("cpu", "gpu", "tpu"), help="default: tpu, gpu or cpu, as found")
    add(
        "--framework",
        choices=("jax", "keras", "tensorflow"),
        default="jax",
        help="what the processes compute with",
    )
    add(
        "--env",
        action="append",
        metavar="NAME[=VALUE]",
        help="in place before the framework is imported; default: the kernel's own value",
    )
    add(
        "--grace",
        type=float,
        default=3.0,
        metavar="S",
        help="seconds others may stay in a failed cell",
    )
    add(
        "--give-up",
        type=float,
        default=10.0,
        metavar="S",
        help="seconds after which a process that no interrupt reaches is given up",
    )
    add(
        "--no-recover",
        action="store_true",
        help="leave it to %%dist_recover to bring processes in step again",
    )
    add(
        "--restart",
        action="store_true",
        help="stop the processes and start afresh on the same plan",
    )
    add(
        "--no-initialize",
        action="store_true",
        help="set the environment only; leave the framework's initialize to your cells",
    )
    add(
        "--check",
        action="store_true",
        help="before each cell compare what must be equal on all processes; %%%%dist --no-check does not",
    )
    add("--keep", action="store_true", help="let the processes outlive this kernel")
    add(
        "--attach",
        metavar="ID|last|FILE",
        help="take part in what runs already: a session, or engines of ipyparallel's by file or profile",
    )
    add("--start-timeout", type=float, default=120.0, metavar="S", help="seconds to connect all")
    add(
        "--start-method", choices=("fork", "spawn"), help="default: fork where the system allows it"
    )
    keras = parser.add_argument_group("--framework keras")
    keras.add_argument("--backend", choices=("jax", "tensorflow", "torch"), help="default: jax")
    keras.add_argument(
        "--job-addresses",
        metavar="HOST:PORT,…",
        help="the coordinator's address, or one for each process",
    )
    tensorflow = parser.add_argument_group(
        "--framework tensorflow (its server listens on every interface)"
    )
    tensorflow.add_argument(
        "--evaluators", type=int, default=0, metavar="N", help="processes beside the workers"
    )
    jax = parser.add_argument_group("jax.distributed.initialize")
    jax.add_argument("--coordinator", metavar="HOST[:PORT]", help="coordinator_address")
    jax.add_argument(
        "--coordinator-bind-address", metavar="HOST:PORT", help="default: the address itself"
    )
    jax.add_argument("--local-device-ids", metavar="0,1;2,3", help="one list for each process")
    jax.add_argument("--cluster-detection-method", metavar="METHOD", help="default: deactivate")
    jax.add_argument("--initialization-timeout", type=int, metavar="S", help="JAX's default is 300")
    jax.add_argument("--heartbeat-timeout", type=int, metavar="S", help="JAX's default is 100")
    jax.add_argument("--shutdown-timeout", type=int, metavar="S", help="JAX's default is 300")
    jax.add_argument("--partition-index", metavar="0,0,1,1", help="one for each process, or none")
    host_options(parser)
    tpu = parser.add_argument_group("the workers of a TPU pod, reached with ssh")
    tpu.add_argument(
        "--tpu", nargs="?", const="here", metavar="NAME", help="default: the pod this machine is in"
    )
    tpu.add_argument("--zone", metavar="Z", help="of the name")
    tpu.add_argument("--project", metavar="P", help="default: the one gcloud is set to")
    job_options(parser)
    hosts = parser.add_argument_group("many hosts")
    hosts.add_argument("--min-hosts", type=int, metavar="N", help="go on when so many come up")
    hosts.add_argument(
        "--sync",
        action="append",
        metavar="PATH",
        help="your modules: a folder, a package or a .py file; %%dist_sync repeats it",
    )
    hosts.add_argument("--cwd", metavar="PATH", help="working folder there (default: the kernel's)")
    hosts.add_argument(
        "--controller-address", metavar="ADDRESS", help="of this machine, as the hosts reach it"
    )
    return parser


def refuse_beside_restart(asked: argparse.Namespace) -> None:
    """Refuses options beside `--restart`, which keeps the plan there is.

    Raises:
      OptionError: Names one of them.
    """
    for name, default in vars(dist_init().parse("")).items():
        if name != "restart" and getattr(asked, name) != default:
            raise OptionError(
                f"--restart starts the same plan afresh; --{name.replace('_', '-')} cannot change it. For another "
                "plan use %dist_shutdown, then %dist_init with the options."
            )


def attach_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `nbdist.attach` that the options beside `--attach` stand for.

    Raises:
      OptionError: One that says where processes are to be started.
    """
    given = start_arguments(asked)
    defaults = start_arguments(dist_init().parse(""))
    arguments = {name: value for name, value in given.items() if value != defaults[name]}
    for name in arguments.keys() - ATTACH_ARGUMENTS:
        raise OptionError(
            f"--attach takes part in processes that run; {option_name(name)} is for starting others."
        )
    return arguments


ATTACH_ARGUMENTS = frozenset(
    (
        *(
            "check",
            "grace_s",
            "give_up_s",
            "recover",
            "framework",
            "backend",
            "platform",
            "environment",
            "initialize",
        ),
        "devices_per_process",
        *("initialization_timeout_s", "heartbeat_timeout_s", "shutdown_timeout_s"),
    )
)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """`"0,1"` or `"0-3"` as numbers; none where nothing stands between the commas.

    Raises:
      OptionError: Something else stands there.
    """
    parts = [part for part in text.split(",") if part.strip()]
    try:
        return tuple(ranges.numbers(",".join(parts))) if parts else ()
    except ValueError as error:
        raise OptionError(f"{option} {text!r}: {error}") from None


def environment(pairs: Sequence[str]) -> dict[str, str]:
    """`["A=1", "B"]` as a dictionary; a name alone stands for the value it has here.

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


def start_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """The keyword arguments of `nbdist.start` that the options of `%dist_init` stand for."""
    ids = options.local_device_ids
    index = options.partition_index
    return {
        "processes": options.processes,
        "hosts": options.hosts,
        "hosts_file": options.hosts_file,
        "ssh_config": options.ssh_config,
        "remote_python": options.remote_python,
        "min_hosts": options.min_hosts,
        "cwd": options.cwd,
        "slurm": options.slurm,
        "nodes": options.nodes,
        "ntasks_per_node": options.ntasks_per_node,
        "partition": options.partition,
        "account": options.account,
        "time": options.time,
        "slurm_options": options.slurm_option or (),
        "mpi": options.mpi,
        "mpirun": options.mpirun,
        "mpi_options": options.mpi_option or (),
        "sync": tuple(options.sync or ()),
        "controller_address": options.controller_address,
        "tpu": options.tpu,
        "zone": options.zone,
        "project": options.project,
        "devices_per_process": options.devices_per_process,
        "platform": options.platform,
        "framework": options.framework,
        "backend": options.backend,
        "job_addresses": options.job_addresses,
        "evaluators": options.evaluators,
        "environment": environment(options.env or ()),
        "grace_s": options.grace,
        "give_up_s": options.give_up,
        "check": options.check,
        "recover": not options.no_recover,
        "keep": options.keep,
        "initialize": not options.no_initialize,
        "start_timeout_s": options.start_timeout,
        "start_method": options.start_method,
        "coordinator": options.coordinator,
        "coordinator_bind_address": options.coordinator_bind_address,
        "local_device_ids": [numbers(part, "--local-device-ids") for part in ids.split(";")]
        if ids
        else None,
        "cluster_detection_method": options.cluster_detection_method,
        "initialization_timeout_s": options.initialization_timeout,
        "heartbeat_timeout_s": options.heartbeat_timeout,
        "shutdown_timeout_s": options.shutdown_timeout,
        "partition_index": numbers(index, "--partition-index") if index else None,
    }
