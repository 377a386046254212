"""Choice, from a person's options, of where processes run and who starts them; all bad input is refused here.

`choose_placement` reads all options about hosts, and leaves those about Slurm and MPI to `choose_job`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from nbdist.errors import OptionError
from nbdist.launch.model.hosts import AskedHost, SshOptions, compress, parse_hosts, read_hosts
from nbdist.launch.model.plan import Placement
from nbdist.launch.planning.choose import host_counts
from nbdist.launch.schedulers.mpi import check_hosts, mpi_job
from nbdist.launch.schedulers.slurm import (
    SlurmOptions,
    allocation,
    have_commands,
    node_addresses,
    slurm_job,
)
from nbdist.launch.tpu.discover import find_pod
from nbdist.launch.tpu.pod import TpuPod, pod_hosts
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


def choose_placement(
    *,
    hosts: str | Sequence[AskedHost | str] | Mapping[str, int] | None = None,
    hosts_file: str | None = None,
    ssh_config: str | None = None,
    remote_python: str | None = None,
    min_hosts: int | None = None,
    cwd: str | None = None,
    controller_address: str | None = None,
    tunnel: bool = False,
    tpu: str | None = None,
    zone: str | None = None,
    project: str | None = None,
    processes: int | None = None,
    **job: Any,
) -> Placement:
    """Return where processes run; see `nbdist.start` for the arguments, and `JobOptions` for those of jobs.

    Raises:
      OptionError: Hosts that cannot be read, a file that does not exist, or options that need others.
      LaunchError: The source of information about a TPU fails.
    """
    pod = _pod(tpu, zone, project, hosts if hosts is not None else hosts_file)
    asked = pod_hosts(pod) if pod is not None else asked_hosts(hosts, hosts_file)
    jobs = JobOptions(**job)
    jobs.refuse_alone()
    is_job = jobs.slurm or jobs.mpi
    if is_job and pod is not None:
        raise OptionError(
            f"{option('tpu')} reaches its hosts with ssh; leave {option('slurm', True)} and "
            f"{option('mpi', True)} out."
        )
    if not asked and not is_job:
        for name, value in (
            ("ssh_config", ssh_config),
            ("remote_python", remote_python),
            ("min_hosts", min_hosts),
            ("cwd", cwd),
            ("controller_address", controller_address),
        ):
            if value is not None:
                raise OptionError(
                    f"{option(name, value)}: for hosts only; name them with {option('hosts')}."
                )
        if tunnel:
            raise OptionError(
                f"{option('tunnel', True)}: for hosts only; name them with {option('hosts')}."
            )
        return Placement()
    if ssh_config is not None and not Path(ssh_config).expanduser().is_file():
        raise OptionError(f"{option('ssh_config', ssh_config)}: there is no such file.")
    ssh = SshOptions(
        python=remote_python or sys.executable,
        config=None if ssh_config is None else str(Path(ssh_config).expanduser()),
    )
    if tunnel:
        _refuse_beside_tunnel(asked, controller_address, is_job=is_job)
    if is_job:
        placed = choose_job(jobs, processes=processes, hosts=asked, ssh=ssh, min_hosts=min_hosts)
        return replace(placed, cwd=cwd, controller_address=controller_address)
    if min_hosts is not None and not 1 <= min_hosts <= len(asked):
        raise OptionError(
            f"{option('min_hosts', min_hosts)} with {len(asked)} hosts: expected 1 to {len(asked)}."
        )
    return Placement(
        launcher="ssh" if pod is None else "tpu",
        hosts=asked,
        ssh=ssh,
        min_hosts=min_hosts,
        cwd=cwd,
        controller_address=controller_address,
        tunnel=tunnel,
        remarks=() if pod is None else pod.notes,
        ssh_advice=None if pod is None else pod.ssh_advice,
    )


def _refuse_beside_tunnel(
    hosts: Sequence[AskedHost], controller_address: str | None, *, is_job: bool
) -> None:
    if is_job:
        raise OptionError(
            f"{option('tunnel', True)} goes through ssh to each host; leave {option('slurm', True)} and "
            f"{option('mpi', True)} out, and name the hosts with {option('hosts')}."
        )
    if controller_address is not None:
        raise OptionError(
            f"{option('tunnel', True)}: the hosts reach this machine at no address of its own; leave "
            f"{option('controller_address', controller_address)} out."
        )
    for host in hosts:
        if host.local:
            raise OptionError(
                f"{option('tunnel', True)}: processes on this machine ({host.name}) cannot be reached by those on "
                f"the hosts, and all compute together. Leave it out of {option('hosts')}."
            )


HERE = "here"
"""Value of `tpu` for the pod that this machine is a worker of."""


def _pod(tpu: str | None, zone: str | None, project: str | None, hosts: object) -> TpuPod | None:
    if tpu is None:
        for name, value in (("zone", zone), ("project", project)):
            if value is not None:
                raise OptionError(
                    f"{option(name, value)}: for TPUs only; name one with {option('tpu')}."
                )
        return None
    if hosts is not None:
        raise OptionError(
            f"{option('tpu')} finds the hosts by itself; leave {option('hosts')} and "
            f"{option('hosts_file')} out."
        )
    return find_pod(None if tpu == HERE else tpu, zone, project, os.environ)


def asked_hosts(
    hosts: str | Sequence[AskedHost | str] | Mapping[str, int] | None, hosts_file: str | None
) -> tuple[AskedHost, ...]:
    """Return the hosts that are named in one way or the other; empty if none are.

    Raises:
      OptionError: A host or a file that cannot be read, or both ways at once.
    """
    if hosts is not None and hosts_file is not None:
        raise OptionError(
            f"{option('hosts')} and {option('hosts_file')} both name the hosts. Use one of them."
        )
    if hosts_file is not None:
        return read_hosts(Path(hosts_file))
    if hosts is None:
        return ()
    if isinstance(hosts, str):
        return parse_hosts(hosts)
    if all(isinstance(host, AskedHost) for host in hosts):
        return tuple(host for host in hosts if isinstance(host, AskedHost))
    if isinstance(hosts, Mapping):
        hosts = [f"{name}:{count}" for name, count in hosts.items()]
    return parse_hosts(",".join(map(str, hosts)))
