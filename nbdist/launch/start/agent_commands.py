"""Ways to agents on other machines: commands, addresses, and the variables that go to them."""

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

from nbdist.errors import LaunchError
from nbdist.launch.agents.channel import AgentSpec, Watch
from nbdist.launch.model.hosts import AskedHost, SshOptions, ssh_command, ssh_target
from nbdist.launch.model.plan import Job, Placement
from nbdist.launch.schedulers.mpi import MpiWatch
from nbdist.launch.schedulers.slurm import SlurmWatch
from nbdist.machine.ports import own_address
from nbdist.spelling import option

PARENT = ("-u", "-m", "nbdist.agent")

FORWARDED = ("JAX_", "XLA_", "LIBTPU_", "NCCL_", "KERAS_", "TF_", "TPU_", "OMP_")
"""Beginnings of variables that change how frameworks behave; the hosts get this machine's values of them."""

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
"""Beginnings of variables that say who a process is; a host has its own, or gets its own."""

SECRET = re.compile(r"(^|_)(TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS?|API_?KEY|ACCESS_KEY)(_|$)")
"""Names of secrets, never sent unasked; `KEY` alone does not match, since JAX has it in its own names."""

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
"""Beginnings of variables by which Slurm or Open MPI describes a task; their other variables are settings."""

HOLD = (sys.executable, "-m", "nbdist.launch.schedulers.job_guard")


def ssh_reach(host: AskedHost, options: SshOptions) -> AgentSpec:
    """Return the way to one agent, through one connection that lasts as long as the agent."""
    command = ssh_command(host, options, [options.python, *PARENT])
    return AgentSpec(
        name=host.name, command=tuple(command), remote=True, host=host, options=options
    )


def job_reach(
    job: Job, launcher: str, *, tasks: int, environment: Mapping[str, str] | None = None
) -> AgentSpec:
    """Return the way to as many agents as the job has tasks, through one stream.

    Args:
      job: The job that is asked for.
      launcher: Who starts it.
      tasks: How many tasks it has.
      environment: The environment of the command, from which the tasks inherit; None: this kernel's own.
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
    """Return the variables of a job's command, and so of its tasks, without those that would mislead them.

    This kernel may be a task itself, and `srun` would take the kernel's own settings for those of the new job.
    `folder` is where mpirun keeps its own files, which it leaves behind when it is interrupted twice.
    """
    own = {} if folder is None else {"OMPI_MCA_orte_local_tmpdir_base": folder}
    return own | {
        name: value
        for name, value in environment.items()
        if not name.startswith(OF_ANOTHER_TASK)
        and (not name.startswith(NOT_FORWARDED) or name.startswith("OMPI_MCA_"))
    }


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this kernel that its processes on other machines get without being asked for."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(FORWARDED)
        and not name.startswith(NOT_FORWARDED)
        and not SECRET.search(name)
    }


LOOK_UPS = 16
"""How many names of hosts are looked up at once."""


def _own_address(host: AskedHost, placement: Placement) -> str | None:
    target, _ = ssh_target(host, placement.ssh or SshOptions(python=""))
    return own_address(target)


def controller_address(placement: Placement) -> str:
    """Return the address of this machine at which the hosts are to find the controller.

    It is the address from which this machine reaches the first host that can be resolved; a host that is reached
    only through others (`ProxyJump`) has no influence.

    Raises:
      LaunchError: No address is found, or hosts are reached from different ones.
    """
    if placement.controller_address is not None:
        return placement.controller_address
    found: dict[str, list[str]] = {}
    hosts = [host for host in placement.hosts if not host.local]
    # Looking up a name that does not exist may take seconds.
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
        # No packet is sent; any address outside shows the way out of this machine.
        address = own_address("192.0.2.1")
    if address is None or address.startswith("127."):
        raise LaunchError(
            "No address of this machine was found that other hosts could reach. Name one with "
            f"{option('controller_address')}."
        )
    return address
