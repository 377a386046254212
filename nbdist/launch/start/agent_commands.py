"""The way to agents on other machines: commands, addresses, and what travels along."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from nbdist.errors import LaunchError
from nbdist.launch.agents.agent_spec import AgentSpec
from nbdist.launch.agents.watch import Watch
from nbdist.launch.model.host_list import AskedHost
from nbdist.launch.model.placement import Job, Placement
from nbdist.launch.model.ssh import SshOptions, ssh_command, ssh_target
from nbdist.launch.schedulers.mpi import MpiWatch
from nbdist.launch.schedulers.slurm.queue import SlurmWatch
from nbdist.machine.ports import own_address
from nbdist.spelling import option

PARENT = ("-u", "-m", "nbdist.agent")

FORWARDED = ("JAX_", "XLA_", "LIBTPU_", "NCCL_", "KERAS_", "TF_", "TPU_", "OMP_")
"""Variables with these beginnings say how frameworks behave; they reach the hosts as they reach this machine."""

NOT_FORWARDED = (
    "TF_CONFIG",
    "TPU_WORKER",
    "TPU_PROCESS",
    # JAX sets it on a machine without chips; on one with them it would hide the pod.
    "TPU_SKIP_MDS_QUERY",
    "KERAS_DISTRIBUTION_",
    "OMPI_",
    "JAX_COORDINATOR",
    "JAX_PROCESS_ID",
    "JAX_NUM_PROCESSES",
    "JAX_LOCAL_DEVICE_IDS",
    "JAX_PARTITION_INDEX",
    "JAX_SLICE_INDEX",
    "TPU_VISIBLE_",
)
"""These say who a process is, and a host has its own, or is given its own."""

SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_KEY)(_|$)")
"""No secret goes anywhere unasked; JAX's own names hold `KEY`, of random numbers and caches."""

OF_ANOTHER_TASK = (
    "SLURM_STEP",
    "SLURM_PROCID",
    "SLURM_LOCALID",
    "SLURM_NODEID",
    "SLURM_TASK",
    "SLURM_NTASKS",
    "SLURM_NPROCS",
    "SLURM_CPU_BIND",
    "SLURM_MEM_BIND",
    "SLURM_LABELIO",
    "SLURM_UNBUFFEREDIO",
    "SLURM_DISTRIBUTION",
    "OMPI_MCA_orte_hnp",
    "OMPI_MCA_orte_local",
    "OMPI_MCA_ess",
    "PMI",
)
"""What a task is given about itself by Slurm or Open MPI. Others of their variables are a person's settings."""

HOLD = (sys.executable, "-m", "nbdist.launch.schedulers.job_guard")


def ssh_reach(host: AskedHost, options: SshOptions) -> AgentSpec:
    """One agent through one connection, which lasts as long as the agent."""
    command = ssh_command(host, options, [options.python, *PARENT])
    return AgentSpec(
        name=host.name, command=tuple(command), remote=True, host=host, options=options
    )


def job_reach(
    job: Job, launcher: str, *, tasks: int, environment: Mapping[str, str] | None = None
) -> AgentSpec:
    """As many agents as the job has tasks, through one stream.

    Args:
      job: What is asked for.
      launcher: Of whom.
      tasks: How many.
      environment: That of the command, from which the tasks inherit; None: this kernel's own.
    """
    program = (job.python, *PARENT, "--task", job.task_variable)
    watch: Watch = (
        SlurmWatch(job.name, allocation=job.allocation, python=job.python)
        if launcher == "slurm"
        else MpiWatch(job.command[0], python=job.python)
    )
    return AgentSpec(
        name=watch.title,
        command=(*HOLD, *job.command, "-n", str(tasks), *program),
        environment=environment,
        remote=True,
        watch=watch,
    )


def job_environment(environment: Mapping[str, str], folder: str | None = None) -> dict[str, str]:
    """The variables the command of a job gets, and its tasks from it, without those that mislead one of them.

    This kernel may be a task itself, and `srun` would take what that was given for what it is to do. `folder` is
    where mpirun keeps its own files, which it leaves when it is interrupted twice.
    """
    own = {} if folder is None else {"OMPI_MCA_orte_local_tmpdir_base": folder}
    return own | {
        name: value
        for name, value in environment.items()
        if not name.startswith(OF_ANOTHER_TASK)
        and (not name.startswith(NOT_FORWARDED) or name.startswith("OMPI_MCA_"))
    }


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables of this kernel that its processes on other machines get without being asked for."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(FORWARDED)
        and not name.startswith(NOT_FORWARDED)
        and not SECRET.search(name)
    }


LOOK_UPS = 16
"""Names of hosts that are looked up at once."""


def _own_address(host: AskedHost, placement: Placement) -> str | None:
    target, _ = ssh_target(host, placement.ssh or SshOptions(python=""))
    return own_address(target)


def controller_address(placement: Placement) -> str:
    """The address of this machine at which the hosts are to find the controller.

    It is the one from which this machine reaches the first host that can be resolved; a host that is reached
    through others only (`ProxyJump`) has no say.

    Raises:
      LaunchError: No address is found, or hosts are reached from different ones.
    """
    if placement.controller_address is not None:
        return placement.controller_address
    found: dict[str, list[str]] = {}
    hosts = [host for host in placement.hosts if not host.local]
    # A name that leads nowhere may take seconds to say so.
    with ThreadPoolExecutor(max(1, min(len(hosts), LOOK_UPS))) as pool:
        addresses = pool.map(lambda host: _own_address(host, placement), hosts)
        for host, address in zip(hosts, addresses, strict=True):
            if address is not None:
                found.setdefault(address, []).append(host.name)
    for near in placement.job.near if placement.job is not None else ():
        address = own_address(near)
        if address is not None:
            found.setdefault(address, []).append(near)
    found = {address: names for address, names in found.items() if not address.startswith("127.")}
    if len(found) > 1:
        ways = "; ".join(f"{', '.join(names)} from {address}" for address, names in found.items())
        raise LaunchError(
            f"This machine reaches the hosts from different addresses: {ways}. Name one that all of them reach "
            f"with {option('controller_address')}."
        )
    if found:
        return next(iter(found))
    address = own_address(socket.gethostname())
    if address is None or address.startswith("127."):
        # No packet is sent; the way to anywhere outside is the way out of this machine.
        address = own_address("192.0.2.1")
    if address is None or address.startswith("127."):
        raise LaunchError(
            "No address of this machine was found that other hosts could reach. Name one with "
            f"{option('controller_address')}."
        )
    return address
