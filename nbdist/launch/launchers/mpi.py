"""MPI: one `mpirun` of Open MPI starts an agent for one process in each of its ranks.

MPI is used only to start processes; they communicate through their frameworks. Run with Open MPI 4.1.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from collections.abc import Sequence
from pathlib import Path

from nbdist.errors import OptionError
from nbdist.launch.agents import Watch
from nbdist.launch.launchers import ChosenLauncher, further_options
from nbdist.launch.launchers.ssh import ssh_options
from nbdist.launch.model.hosts import AskedHost, SshOptions, host_counts
from nbdist.launch.model.plan import Job, Placement
from nbdist.launch.model.start_options import MPI, StartOptions
from nbdist.machine import checkup
from nbdist.machine.processes import LOG_LINES
from nbdist.spelling import Placeholder, option

OURS = {
    ("-n", "-np", "--np", "-c", "--n"): "processes",
    ("-H", "-host", "--host"): "hosts",
    ("-wdir", "--wdir", "-wd"): "cwd",
    ("-stdin", "--stdin"): "nbdist sends orders to the processes through it",
    ("-tag-output", "--tag-output", "-l"): "the processes answer through it",
    ("-timestamp-output", "--timestamp-output"): "the processes answer through it",
    ("-output-filename", "--output-filename"): "the processes answer through it",
    ("-xterm", "--xterm", "-xml", "--xml"): "the processes answer through it",
}
"""Options of mpirun that nbdist sets itself, with nbdist's option to use instead, or why there is none."""


def placement(asked: StartOptions, hosts: Sequence[AskedHost], ssh: SshOptions) -> Placement:
    """Return the placement of processes that `mpirun` starts on the named hosts, as ranks in their order.

    Raises:
      OptionError: There is no such command, an option is impossible, or mpirun cannot use a host.
    """
    check_hosts(hosts)
    job = mpi_job(
        host_counts(hosts, asked.processes),
        ssh,
        mpirun=asked.mpirun,
        extra=asked.mpi_options,
    )
    return Placement(launcher="mpi", hosts=tuple(hosts), ssh=ssh, job=job)


def mpi_job(
    hosts: Sequence[tuple[str, int]],
    ssh: SshOptions,
    *,
    mpirun: str | None = None,
    extra: Sequence[str] = (),
) -> Job:
    """Return the job that `mpirun` runs.

    Args:
      hosts: The named hosts, each with its number of processes.
      ssh: How mpirun reaches them, and the interpreter there.
      mpirun: Its name or path; default: the one on the PATH.
      extra: Further options, one or more in a text.

    Raises:
      OptionError: There is no such command, or an option is impossible.
    """
    command = shutil.which(mpirun or "mpirun")
    if command is None:
        raise OptionError(
            f"{option('mpirun', mpirun)}: there is no such command."
            if mpirun is not None
            else f"{option('mpi', True)}: mpirun is not on this kernel's PATH. Install Open MPI, or name it "
            f"with {option('mpirun', Placeholder('PATH'))}."
        )
    options = further_options(
        extra,
        parameter="mpi_options",
        example="an option of mpirun, such as --oversubscribe",
        ours=OURS,
        is_one=lambda word, names: word in names,
    )
    words = [mpirun or "mpirun", *(["--allow-run-as-root"] if os.geteuid() == 0 else [])]
    words += ["--stdin", "all", "--tag-output", "--wdir", "/"]
    # Not bound to processors, as without mpirun; ranks follow the order of the hosts.
    words += ["--bind-to", "none", "--map-by", "slot"]
    # If one rank ends, the others must keep their variables.
    words += ["--mca", "orte_abort_on_non_zero_status", "0"]
    # Connect from here to every host: the hosts may not reach each other with ssh.
    agent = _agent(ssh)
    words += ["--mca", "plm_rsh_agent", agent, "--mca", "plm_rsh_no_tree_spawn", "1"]
    words += ["--host", ",".join(f"{name}:{count}" for name, count in hosts)]
    return Job(
        command=(*words, *options),
        task_variable="OMPI_COMM_WORLD_RANK",
        python=ssh.python,
        processes=sum(count for _, count in hosts),
    )


def _agent(ssh: SshOptions) -> str:
    if ssh.config is not None and not set(" :'\"\\").isdisjoint(ssh.config):
        raise OptionError(
            f"{option('ssh_config', ssh.config)}: a file with such a name cannot be passed to mpirun. Name one "
            "without spaces, colons and quotes."
        )
    return " ".join(["ssh", *ssh_options(ssh)])


def check_hosts(hosts: Sequence[AskedHost]) -> None:
    """Refuse hosts to which mpirun passes no input, and settings of a host that mpirun cannot take.

    Open MPI 4.1 passes its input on to ranks on other hosts only (`--stdin all`); ranks beside mpirun itself meet
    the end of input at once.

    Raises:
      OptionError: No host is named, one is this machine, or one has a user or a port.
    """
    if not hosts:
        raise OptionError(
            f"{option('mpi', True)}: name the hosts, such as {option('mpi', True)} "
            f"{option('hosts', 'h1:2,h2:2')}."
        )
    for host in hosts:
        if host.local or checkup.is_own(_address(host.name)):
            raise OptionError(
                f"{option('hosts')}: {host.name} is this machine, where mpirun does not pass its input on to "
                f"its ranks. Leave it out; or leave {option('mpi', True)} out: {option('hosts')} alone starts "
                "processes here and on other hosts."
            )
        for what, value in (("user", host.user), ("port", host.port)):
            if value is not None:
                raise OptionError(
                    f"{option('hosts')}: {host.name} has the {what} {value}, which cannot be passed to mpirun. "
                    "Put it into the ssh configuration (~/.ssh/config, or "
                    f"{option('ssh_config', Placeholder('FILE'))})."
                )


def _address(name: str) -> str:
    """Return the address of a name; empty if only ssh's configuration knows the name."""
    with contextlib.suppress(OSError):
        return socket.gethostbyname(name)
    return ""


_FRAME = re.compile(r"-{20,}\s*$")
_TAG = re.compile(r"^(\[\d+,\d+\]<stderr>:)+")
NOTICE_LINES = 8


class MpiWatch(Watch):
    """Watch on an mpirun job: it has no queue, and mpirun reports no cause of the end of a job or task.

    Processes on other hosts end with the connection, so there is nothing to cancel.
    """

    def __init__(self, job: Job) -> None:
        name = Path(job.command[0]).name
        super().__init__(name, name, python=job.python)

    def reasons(self, lines: Sequence[str]) -> tuple[str, ...]:
        """Return the lines outside mpirun's framed notices, such as ssh's messages, and the first notice."""
        inside, notices, outside, first = False, 0, [], []
        for line in lines:
            if _FRAME.match(line):
                inside = not inside
                notices += inside
            elif line.strip() and not inside:
                outside.append(_TAG.sub("", line))
            elif line.strip() and notices == 1:
                first.append(line)
        return (*outside[-LOG_LINES:], *first[:NOTICE_LINES])


LAUNCHER = ChosenLauncher(MPI, placement, MpiWatch)
