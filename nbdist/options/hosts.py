"""The options that say where processes run, and those of the doctor."""

from __future__ import annotations

import argparse
from typing import Any

from nbdist.launch.doctor.finding import Needs
from nbdist.launch.planning.choose_placement import choose_placement
from nbdist.options.parser import Parser


def host_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options that say which hosts are meant and how they are reached.

    They are read as `hosts`, `hosts_file`, `ssh_config` and `remote_python`.
    """
    group = parser.add_argument_group("hosts, reached with ssh")
    group.add_argument(
        "--hosts",
        metavar="H1:2,H2:2",
        help="[USER@]HOST[:PROCESSES], or …:PORT:N; node[01-64,70]:2 are many",
    )
    group.add_argument("--hosts-file", metavar="FILE", help="the same, line by line")
    group.add_argument("--ssh-config", metavar="FILE", help="in place of ~/.ssh/config")
    group.add_argument(
        "--remote-python", metavar="PATH", help="the hosts' Python (default: this one's path)"
    )


def job_options(parser: argparse.ArgumentParser) -> None:
    """Adds the options of jobs; `nbdist.launch.planning.choose_job.JobOptions` has them all."""
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
        example="%dist_doctor --hosts h1:2,h2:2",
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
