"""From the options of a scheduler or of MPI to a placement."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from nbdist.errors import OptionError
from nbdist.launch.model.host_list import AskedHost
from nbdist.launch.model.host_names import compress
from nbdist.launch.model.placement import Placement
from nbdist.launch.model.ssh import SshOptions
from nbdist.launch.planning.choose import host_counts
from nbdist.launch.schedulers.mpi import check_hosts, mpi_job
from nbdist.launch.schedulers.slurm.allocation import allocation
from nbdist.launch.schedulers.slurm.ask import have_commands, node_addresses
from nbdist.launch.schedulers.slurm.options import SlurmOptions, slurm_job
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions(SlurmOptions):
    """The options of `nbdist.start` that concern a scheduler or MPI, under its names.

    `slurm` and `mpi` say who starts the processes; each other option belongs to one of them. `mpi_options` are
    passed to `mpirun` unchanged.
    """

    slurm: bool = False
    mpi: bool = False
    mpirun: str | None = None
    mpi_options: Sequence[str] = ()

    def refuse_alone(self) -> None:
        """Refuse options of a launcher that is not chosen, and two launchers at once.

        Raises:
          OptionError: The text names one of them.
        """
        if self.slurm and self.mpi:
            raise OptionError(
                f"{option('slurm', True)} and {option('mpi', True)} both start the processes. Use "
                "one of them."
            )
        for field in fields(self):
            value = getattr(self, field.name)
            owner = "mpi" if field.name.startswith("mpi") else "slurm"
            if value and field.name not in ("slurm", "mpi") and not getattr(self, owner):
                raise OptionError(f"{option(field.name)}: for {option(owner, True)} only.")


def choose_job(
    options: JobOptions,
    *,
    processes: int | None,
    hosts: Sequence[AskedHost],
    ssh: SshOptions,
    min_hosts: int | None,
) -> Placement:
    """Return the placement of processes that Slurm or MPI starts; see `nbdist.start` for the arguments.

    Raises:
      OptionError: Options that do not go together.
      LaunchError: Slurm does not answer.
    """
    title = option("slurm" if options.slurm else "mpi", True)
    if min_hosts is not None:
        raise OptionError(
            f"{option('min_hosts', min_hosts)}: with {title} all processes come up, or none."
        )
    if options.slurm:
        return _slurm(options, processes, hosts, ssh)
    check_hosts(hosts)
    job = mpi_job(
        hosts=host_counts(hosts, processes),
        ssh=ssh,
        mpirun=options.mpirun,
        extra=options.mpi_options,
    )
    return Placement(launcher="mpi", hosts=tuple(hosts), ssh=ssh, job=job)


def _slurm(
    options: JobOptions,
    processes: int | None,
    hosts: Sequence[AskedHost],
    ssh: SshOptions,
) -> Placement:
    if hosts:
        names = compress(host.name for host in hosts)
        raise OptionError(
            f"{option('hosts')} with {option('slurm', True)}: Slurm chooses the hosts. To have these, use "
            f"{option('slurm_options', [f'--nodelist={names}'])}"
        )
    if ssh.config is not None:
        raise OptionError(
            f"{option('ssh_config', ssh.config)}: with {option('slurm', True)} nothing goes "
            "through ssh."
        )
    have_commands()
    inside = allocation(os.environ)
    python = ssh.python or sys.executable
    job = slurm_job(options, processes=processes, python=python, inside=inside)
    # This also shows, before anything is started, whether Slurm answers at all.
    near = node_addresses(
        nodes=inside.node_list if inside is not None else None, partition=options.partition
    )
    if inside is None and options.nodes is not None and options.nodes > len(near):
        where = f"partition {options.partition}" if options.partition else "this cluster"
        raise OptionError(
            f"{option('nodes', options.nodes)}: {where} has {len(near)} nodes; such a job would wait for ever. "
            f"Ask for {len(near)} or fewer."
        )
    return Placement(launcher="slurm", job=replace(job, near=near[:8]))
