"""Where processes run and how they are started there, as data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from nbdist.launch.hostlist import AskedHost
from nbdist.launch.ssh import SshOptions

Launcher = Literal["local", "ssh", "slurm", "mpi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What a scheduler or `mpirun` is asked for.

    `command` is its command line up to the program it is to run; `task_variable` the environment variable in
    which each task finds its number; `hosts` how many hosts are asked for, None where that is left to it.
    """

    command: tuple[str, ...]
    task_variable: str
    hosts: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How the processes of a plan come to their hosts.

    `hosts` are those asked for by name, empty for this machine alone and where a scheduler chooses; `ssh` says
    how they are reached. `min_hosts` is how many must come up, None: all. `cwd` is the working folder there,
    None: the kernel's own. `controller_address` is an address of this machine that all hosts reach, None: one
    is found.
    """

    launcher: Launcher = "local"
    hosts: tuple[AskedHost, ...] = ()
    ssh: SshOptions | None = None
    job: Job | None = None
    min_hosts: int | None = None
    cwd: str | None = None
    controller_address: str | None = None

    @property
    def on_this_machine(self) -> bool:
        """Whether no other machine takes part."""
        return self.job is None and all(host.local for host in self.hosts)
