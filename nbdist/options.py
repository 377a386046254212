"""The words a person may write after a magic: one parser each, with `--help` and errors that teach."""

from __future__ import annotations

import argparse
import difflib
import os
import shlex
from collections.abc import Sequence
from typing import Any, NoReturn

from nbdist.errors import OptionError
from nbdist.launch.attach.resolve import option_name
from nbdist.launch.choose_placement import choose_placement
from nbdist.launch.doctor.finding import Needs


class HelpShown(Exception):
    """`--help` was asked for and printed; nothing else is to be done."""


MOST_LISTED = 12
"""So many options are listed where one is unknown; of more the nearest is named, and where all are."""


class Parser(argparse.ArgumentParser):
    """argparse that raises instead of ending the process."""

    def __init__(self, magic: str, description: str) -> None:
        super().__init__(
            prog=magic,
            description=description,
            allow_abbrev=False,
            add_help=False,
        )
        self.add_argument("--help", "-h", action="store_true", help="show this and do nothing")

    def error(self, message: str) -> NoReturn:
        """Called by argparse for what it cannot read."""
        raise OptionError(f"{self.prog}: {message}. See {self.prog} --help.")

    def parse(self, line: str) -> argparse.Namespace:
        """The options of one line.

        Raises:
          OptionError: Something unknown or unreadable, with the nearest known option.
          HelpShown: `--help` was among them.
        """
        try:
            words = shlex.split(line)
        except ValueError as error:
            raise OptionError(f"{self.prog}: cannot read {line!r}: {error}.") from error
        words = _joined(words)
        if {"--help", "-h"}.intersection(words):
            self.print_help()
            raise HelpShown
        options, unknown = self.parse_known_args(words)
        if unknown:
            raise OptionError(self._unknown(unknown[0]))
        return options

    def _unknown(self, word: str) -> str:
        if not word.startswith("-"):
            return (
                f"{self.prog} takes no {word!r}. Lists have commas and no blanks, such as --hosts h1,h2; "
                f"see {self.prog} --help."
            )
        known = [flag for action in self._actions for flag in action.option_strings]
        near = difflib.get_close_matches(word.split("=")[0], known, n=1, cutoff=0.5)
        hint = f" Did you mean {near[0]}?" if near else ""
        flags = [flag for flag in known if flag.startswith("--")]
        if len(flags) > MOST_LISTED:
            return f"{self.prog} has no option {word!r}.{hint} See {self.prog} --help."
        return f"{self.prog} has no option {word!r}.{hint} It has {', '.join(flags) or 'none'}."


OPTIONS_OF_OTHERS = ("--slurm-option", "--mpi-option")


def _joined(words: Sequence[str]) -> list[str]:
    """`--slurm-option --gres=gpu:4` as one word: argparse would take the second for an option of ours."""
    joined: list[str] = []
    for word in words:
        if joined and joined[-1] in OPTIONS_OF_OTHERS:
            joined[-1] += f"={word}"
        else:
            joined.append(word)
    return joined


def dist_init() -> Parser:
    """`%dist_init`."""
    parser = Parser("%dist_init", "Start processes, connect them, and form one cluster.")
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
        "--restart",
        action="store_true",
        help="stop the processes and start afresh on the same plan",
    )
    add(
        "--no-initialize",
        action="store_true",
        help="set the environment only; leave the framework's initialize to your cells",
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


def host_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which hosts are meant and how they are reached.

    They are read as `hosts`, `hosts_file`, `ssh_config` and `remote_python`.
    """
    group = parser.add_argument_group("hosts, reached with ssh")
    group.add_argument("--hosts", metavar="H1:2,H2:2", help="[USER@]HOST[:PROCESSES], or …:PORT:N")
    group.add_argument("--hosts-file", metavar="FILE", help="the same, one host a line")
    group.add_argument("--ssh-config", metavar="FILE", help="in place of ~/.ssh/config")
    group.add_argument(
        "--remote-python", metavar="PATH", help="the hosts' Python (default: this one's path)"
    )


def job_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of jobs; `nbdist.launch.choose_job.JobOptions` has them all."""
    slurm = parser.add_argument_group(
        "a job of Slurm, or a step of the allocation this kernel is in"
    )
    add = slurm.add_argument
    add("--slurm", action="store_true", help="srun starts the processes, a task each")
    add("-N", "--nodes", type=int, metavar="N", help="number of hosts")
    add("--ntasks-per-node", type=int, metavar="N", help="processes of each host")
    add("--partition", metavar="NAME", help="default: Slurm's own")
    add("--account", metavar="NAME", help="who is charged")
    add("--time", metavar="LIMIT", help="minutes, 1:30:00, 2-12, …")
    add(
        "--slurm-option",
        action="append",
        metavar="OPTION",
        help="any other of srun, such as --gres=gpu:4; may be given again",
    )
    mpi = parser.add_argument_group("mpirun of Open MPI, on --hosts")
    mpi.add_argument("--mpi", action="store_true", help="mpirun starts the processes, a rank each")
    mpi.add_argument("--mpirun", metavar="PATH", help="default: that on the kernel's PATH")
    mpi.add_argument(
        "--mpi-option",
        action="append",
        metavar="OPTION",
        help="any other of mpirun, such as --oversubscribe; may be given again",
    )


def doctor_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the doctor, which a notebook and a shell have alike."""
    parser.add_argument(
        "--framework",
        choices=("jax", "keras", "tensorflow"),
        default="jax",
        help="what the processes are to compute with",
    )
    parser.add_argument("--backend", choices=("jax", "tensorflow", "torch"), help="of Keras")
    parser.add_argument("--json", action="store_true", help="findings and facts for a script")
    host_options(parser)


def dist_doctor() -> Parser:
    """`%dist_doctor`."""
    parser = Parser(
        "%dist_doctor",
        "Check hosts before a start: this session's, those named, else this machine.",
    )
    doctor_options(parser)
    return parser


def doctor_arguments(asked: argparse.Namespace) -> dict[str, Any]:
    """The arguments of `nbdist.launch.doctor.doctor` that the options stand for.

    Raises:
      OptionError: Hosts that cannot be read, or a file that cannot.
    """
    placement = choose_placement(
        hosts=asked.hosts,
        hosts_file=asked.hosts_file,
        ssh_config=asked.ssh_config,
        remote_python=asked.remote_python,
    )
    return {
        "placement": placement,
        "needs": Needs(framework=asked.framework, backend=asked.backend),
    }


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
        *("grace_s", "framework", "backend", "platform", "environment", "initialize"),
        "devices_per_process",
        *("initialization_timeout_s", "heartbeat_timeout_s", "shutdown_timeout_s"),
    )
)


def dist_shutdown() -> Parser:
    """`%dist_shutdown`."""
    parser = Parser("%dist_shutdown", "Stop what %dist_init started.")
    parser.add_argument(
        "--leave", action="store_true", help="let a kept session go on without this kernel"
    )
    return parser


def dist_recover() -> Parser:
    """`%dist_recover`."""
    return Parser(
        "%dist_recover",
        "Start lost processes again and make TensorFlow's strategy anew; the others keep their variables.",
    )


def dist() -> Parser:
    """`%%dist`."""
    parser = Parser("%%dist", "Run this cell on the processes.")
    add = parser.add_argument
    add("--on", metavar="TARGETS", help="such as 0,2:4 (4 left out), [0,1-2] (2 included), host=h1")
    add("--timeout", type=float, metavar="S", help="interrupt the cell after so many seconds")
    add("--grace", type=float, metavar="S", help="seconds others may stay after one failed")
    add("--no-wait", action="store_true", help="go on at once; the cell gives a handle to wait on")
    return parser


def dist_pull() -> Parser:
    """`%dist_pull`."""
    parser = Parser("%dist_pull", "Bring values from the processes into this notebook.")
    parser.add_argument(
        "names", nargs="+", metavar="NAME", help="names in the processes' namespace"
    )
    parser.add_argument("--on", metavar="TARGETS", help="take it from these processes")
    parser.add_argument("--yes", action="store_true", help="do not ask before a large array")
    return parser


def dist_push() -> Parser:
    """`%dist_push`."""
    parser = Parser("%dist_push", "Send values of this notebook to the processes.")
    parser.add_argument("names", nargs="+", metavar="NAME", help="names of this notebook")
    parser.add_argument("--on", metavar="TARGETS", help="to these processes only")
    return parser


def dist_mesh() -> Parser:
    """`%dist_mesh`."""
    parser = Parser("%dist_mesh", "Show hosts, devices and meshes, and where an array lies.")
    parser.add_argument("path", nargs="?", metavar="NAME", help="an array, such as params['w']")
    return parser


def dist_shards() -> Parser:
    """`%dist_shards`."""
    parser = Parser("%dist_shards", "Show the shards of one array.")
    parser.add_argument("expression", metavar="EXPR", nargs="+", help="any expression")
    return parser


def dist_layout() -> Parser:
    """`%dist_layout`."""
    parser = Parser("%dist_layout", "Show where the variables of a Keras model lie, and why.")
    parser.add_argument("model", metavar="MODEL", nargs="+", help="a model or layer")
    return parser


def dist_mode() -> Parser:
    """`%dist_mode`."""
    parser = Parser("%dist_mode", "Run plain cells on the processes, too.")
    group = parser.add_mutually_exclusive_group()
    group.add_argument(
        "-e", "--enable", action="store_true", help="plain cells run on all processes"
    )
    group.add_argument(
        "-d", "--disable", action="store_true", help="plain cells run in the notebook"
    )
    return parser


def plain(magic: str, description: str) -> Parser:
    """A magic without options of its own."""
    return Parser(magic, description)


def numbers(text: str, option: str) -> tuple[int, ...]:
    """`"0,1"` as numbers.

    Raises:
      OptionError: Something else stands there.
    """
    try:
        return tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise OptionError(f"{option} {text!r}: expected numbers separated by commas.") from None


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
