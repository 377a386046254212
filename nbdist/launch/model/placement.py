"""Where processes run and how they are started there, as data."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, replace
from typing import Literal

from nbdist.launch.model.host_list import AskedHost
from nbdist.launch.model.ssh import SshOptions

Launcher = Literal["local", "ssh", "tpu", "slurm", "mpi"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The job that a scheduler or `mpirun` is asked for.

    `command` is its command line up to the number of tasks and the program, `python`, that they run;
    `task_variable` the environment variable in which each task finds its number. `processes` is how many there
    will be, evaluators not counted. `name` is the job's name, which no other has; `allocation` the number of the
    allocation of which it is a step. `near` are addresses of hosts on which it may run. `gpus` says that GPUs are
    asked for, `gpus_divided` that somebody else divides them among the tasks.
    """

    command: tuple[str, ...]
    task_variable: str
    python: str
    processes: int
    name: str = ""
    allocation: str | None = None
    near: tuple[str, ...] = ()
    gpus: bool = False
    gpus_divided: bool = False

    def resized(self, processes: int) -> Job:
        """Return another step of the same allocation with this many tasks; the scheduler places them on nodes."""
        name = f"nbdist-{secrets.token_hex(4)}"
        left = [word for word in self.command if not word.startswith(_OF_TASKS)]
        command = tuple(word.replace(self.name, name) for word in left)
        return replace(self, command=command, processes=processes, name=name)


_OF_TASKS = ("--nodes=", "--ntasks-per-node=")
"""Options of `srun` that another number of tasks need not agree with."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """How the processes of a plan come to their hosts.

    `hosts` are those asked for by name, empty for this machine alone and if a scheduler chooses; `ssh` says how
    they are reached. `min_hosts` is how many must come up, None: all. `cwd` is the working folder there, None: the
    kernel's own. `sync` are the paths of the user's files that all hosts are to have. `controller_address` is an
    address of this machine that all hosts reach, None: one is found; `tunnel` says that they reach no address of
    it, and use the ssh connections that lead to them. `remarks` are sentences that a person should read about how
    hosts were found.
    """

    launcher: Launcher = "local"
    hosts: tuple[AskedHost, ...] = ()
    ssh: SshOptions | None = None
    job: Job | None = None
    min_hosts: int | None = None
    cwd: str | None = None
    sync: tuple[str, ...] = ()
    controller_address: str | None = None
    tunnel: bool = False
    remarks: tuple[str, ...] = ()
    ssh_advice: str | None = None

    @property
    def forwarded(self) -> tuple[int, ...]:
        """Ports of this machine that ssh forwards; the last is for checks."""
        return self.ssh.forwarded if self.ssh is not None else ()

    @property
    def on_this_machine(self) -> bool:
        """Whether no other machine takes part."""
        return self.job is None and all(host.local for host in self.hosts)
