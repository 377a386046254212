"""Launchers: one module for each way to start agents on hosts.

On this machine the kernel starts its agent itself. `ssh` reaches hosts that have a name, and the workers that
`tpu` finds. `slurm` and `mpi` request a job, in which each task is an agent; `job_guard` runs the job's command.

A launcher chooses a `Placement` from the options of a start, and makes an `AgentSpec`, the way to an agent. A
launcher that an option selects is found by name (`launcher`): its module defines it as `LAUNCHER`. This module
also has what several launchers share: the command that starts an agent, the variables that agents get from this
kernel, the agents of a job, further options of `srun` and `mpirun`, and the meaning of their last messages.
"""

from __future__ import annotations

import importlib
import re
import shlex
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from nbdist.errors import OptionError, VersionError
from nbdist.launch.agents import AgentSpec, Watch
from nbdist.launch.agents.agent_handle import JobAgent
from nbdist.launch.model.happenings import with_words
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.launch.model.plan import Job, Launcher, Placement
from nbdist.launch.model.start_options import StartOptions
from nbdist.spelling import do_instead, option
from nbdist.version import __version__

JOBS: tuple[Launcher, ...] = ("slurm", "mpi")
"""The launchers of jobs, by the options that choose them."""


@dataclass(frozen=True, slots=True)
class ChosenLauncher:
    """A launcher that the option of the same name selects.

    Attributes:
      options: The heading of its options in `StartOptions`.
      placement: Called with the options of a start, the hosts they name, and the options of ssh.
      watch: Returns the watch on a job; None for a launcher without jobs.
    """

    options: str
    placement: Callable[[StartOptions, Sequence[AskedHost], SshOptions], Placement]
    watch: Callable[[Job], Watch] | None = None


def launcher(name: Launcher) -> ChosenLauncher:
    """Return the launcher that an option selects; its module is imported here, on demand."""
    found: ChosenLauncher = importlib.import_module(f"{__name__}.{name}").LAUNCHER
    return found


AGENT = ("-u", "-m", "nbdist.agent")
"""The words after the interpreter in the command of an agent."""

FORWARDED = ("JAX_", "XLA_", "LIBTPU_", "NCCL_", "KERAS_", "TF_", "TPU_", "OMP_")
"""Beginnings of variables that change how frameworks behave; the hosts get this machine's values of them."""

NOT_FORWARDED = (
    "TF_CONFIG",
    "TPU_WORKER",
    "TPU_PROCESS",
    # JAX sets it on a machine without chips; on a machine with chips it would hide the pod.
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
"""Prefixes of variables that identify a process; each host has its own values, or is given its own."""

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

HOLD = (sys.executable, "-m", "nbdist.launch.launchers.job_guard")


def watch_on(name: Launcher, job: Job) -> Watch:
    """Return the watch on a job of the launcher with this name."""
    watch = launcher(name).watch
    assert watch is not None
    return watch(job)


def job_agents(job: Job, watch: Watch, *, tasks: int, environment: Mapping[str, str]) -> AgentSpec:
    """Return the way to the agents of a job, one for each task, through one stream.

    Args:
      job: The requested job.
      watch: Reads what its scheduler says about it.
      tasks: How many tasks it has.
      environment: The environment of the command, from which the tasks inherit.
    """
    program = (job.python, *AGENT, "--task", job.task_variable)
    return AgentSpec(
        name=watch.title,
        command=(*HOLD, *job.command, "-n", str(tasks), *program),
        environment=environment,
        remote=True,
        watch=watch,
    )


def job_environment(environment: Mapping[str, str], folder: str | None = None) -> dict[str, str]:
    """Return the environment of a job's command and its tasks, without variables that would mislead them.

    This kernel may itself be a task, and `srun` would apply the kernel's settings to the new job. `folder` is
    where mpirun keeps its own files, which it leaves behind when it is interrupted twice.
    """
    own = {} if folder is None else {"OMPI_MCA_orte_local_tmpdir_base": folder}
    return own | {
        name: value
        for name, value in environment.items()
        if not name.startswith(OF_ANOTHER_TASK)
        and (not name.startswith(NOT_FORWARDED) or name.startswith("OMPI_MCA_"))
    }


def forwarded(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of this kernel that processes on other machines get by default."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(FORWARDED)
        and not name.startswith(NOT_FORWARDED)
        and not SECRET.search(name)
    }


def further_options(
    lines: Sequence[str],
    *,
    parameter: str,
    example: str,
    ours: Mapping[tuple[str, ...], str],
    is_one: Callable[[str, Sequence[str]], bool],
) -> tuple[str, ...]:
    """Return further options of a scheduler's program, split into words.

    Args:
      lines: The options as they were given.
      parameter: The parameter of nbdist that takes them.
      example: The expected form, such as `an option of srun, such as --gres=gpu:4`.
      ours: The options that nbdist sets itself, each with the nbdist option to use, or the reason there is none.
      is_one: Called with a word and the names of an option; tells whether the word is that option.

    Raises:
      OptionError: A text is not an option, or is an option that nbdist sets itself.
    """
    words: list[str] = []
    for line in lines:
        try:
            found = shlex.split(line)
        except ValueError as error:  # a quote that is not closed
            raise OptionError(
                f"{option(parameter, [line])}: {error}; expected {example}."
            ) from None
        if not found or not found[0].startswith("-"):
            raise OptionError(f"{option(parameter, [line])}: expected {example}.")
        words += found
    for word in words:
        for names, instead in ours.items():
            if is_one(word, names):
                raise OptionError(
                    f"{option(parameter, [word])}: nbdist gives it itself; {do_instead(instead)}."
                )
    return tuple(words)


def job_ended(agent: JobAgent) -> str:
    """Return why a start failed whose job has ended, and what to type if that is known."""
    watch = agent.watch
    lines = watch.reasons(agent.job_words())
    words = "\n".join(lines)
    python = watch.python
    if lacks_nbdist(lines):
        text = install_nbdist(
            f"{watch.title}: {python} on the hosts", python, host=None, otherwise=other_python()
        )
        return with_words(text, lines)
    if python in words and _NO_FILE.search(words):
        text = (
            f"{watch.title}: the hosts have no Python at {python}. Name their interpreter with "
            f"{option('remote_python')}."
        )
        return with_words(text, lines)
    code = agent.poll()
    ending = f" (exit code {code})" if code is not None else ""
    hint = next((text for sign, text in _hints() if sign in words), "")
    what = watch.ending(agent.job_words()) or watch.command
    return with_words(f"{what} ended before all processes had started{ending}.{hint}", lines)


_NO_FILE = re.compile(
    r"execve.*(No such file|Permission denied)|could not access\s+or execute an executable"
)


def _hints() -> tuple[tuple[str, str], ...]:
    """Return words of srun and mpirun, with what to type."""
    return (
        (
            "Unable to confirm allocation",
            " The kernel's SLURM_JOB_ID is of an allocation that has ended: start the kernel outside of it.",
        ),
        (
            "ssh: ",
            f" Try the same with ssh by hand, or name your configuration with {option('ssh_config')}.",
        ),
    )


def other_python() -> str:
    """Return the words for the alternative to installing nbdist."""
    return f"or name another interpreter with {option('remote_python')}"


def other_version(who: str, version: str, *, on: str, host: str | None = None) -> VersionError:
    """Return the error about another version of nbdist, with what to type.

    Args:
      who: Who has it, such as `Process 3 (host h2)`.
      version: Their version.
      on: The name of the host on which they run.
      host: The host that a start can go on without; None: there is none.
    """
    text = f"{who} has nbdist {version}, this kernel has {__version__}."
    install = f"On {on} run: pip install nbdist=={__version__}"
    return VersionError(f"{text} {install}", host=host)


def lacks_nbdist(lines: Iterable[str]) -> bool:
    """Return whether a Python that was to run nbdist reports that it has none.

    Python has no other sign of it: the words of `ModuleNotFoundError`, and those of `python -m` (runpy).
    """
    return any("No module named" in line and "nbdist" in line for line in lines)


def install_nbdist(who: str, python: str, *, host: str | None, otherwise: str) -> str:
    """Return a sentence that says who lacks nbdist, and the command that installs it.

    Args:
      who: Who lacks nbdist, such as `Engine 3 (host h2)`.
      python: The interpreter.
      host: The interpreter's host; None: each host.
      otherwise: An alternative, or what must be done afterwards.
    """
    where = "On the hosts" if host is None else f"On {host}"
    return f"{who} has no nbdist. {where} run: {python} -m pip install nbdist=={__version__}; {otherwise}."
