"""Slurm: one `srun` starts an agent for one process in each task.

The options of `--slurm` become the command line of `srun`, for a new job, or for a step of the allocation in which
this kernel runs. `SlurmWatch` reports the job's state while it waits and when it ends. Slurm is queried with its
commands, each run only once for a query.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.agents import Watch
from nbdist.launch.launchers import ChosenLauncher, further_options
from nbdist.launch.model.hosts import AskedHost, SshOptions, compress
from nbdist.launch.model.plan import Job, Placement
from nbdist.launch.model.start_options import DEFAULT_PROCESSES, SLURM, StartOptions
from nbdist.notation import numbers_in
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The allocation in which this kernel runs, with the size requested from `salloc` or `sbatch`.

    `tasks` and `tasks_per_node` are None if no number was requested; `gpus` says whether it has GPUs.
    """

    job: str
    nodes: int
    node_list: str
    tasks: int | None = None
    tasks_per_node: int | None = None
    gpus: bool = False


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation that these variables describe; None if they describe none.

    Source: the output environment variables of salloc(1).
    """
    job = environment.get("SLURM_JOB_ID")
    nodes = environment.get("SLURM_JOB_NUM_NODES") or environment.get("SLURM_NNODES")
    if job is None or nodes is None:
        return None
    return Allocation(
        job=job,
        nodes=int(nodes),
        node_list=environment.get("SLURM_JOB_NODELIST", ""),
        tasks=_number(environment.get("SLURM_NTASKS")),
        tasks_per_node=_number(environment.get("SLURM_NTASKS_PER_NODE")),
        gpus=any(
            environment.get(name) for name in ("SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE", "SLURM_GPUS")
        ),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdigit() else None


ANSWER_SECONDS = 10.0
"""Seconds until a query fails; if Slurm's controller does not listen, its commands mostly report that sooner."""


def have_commands() -> None:
    """Check that Slurm's commands are on the PATH.

    Raises:
      OptionError: A command is missing.
    """
    missing = [
        name for name in ("srun", "squeue", "sinfo", "scancel") if shutil.which(name) is None
    ]
    if missing:
        raise OptionError(
            f"{option('slurm', True)}: {', '.join(missing)} {'is' if len(missing) == 1 else 'are'} not on this "
            "kernel's PATH. Start the notebook on a machine that submits jobs to Slurm."
        )


def _elsewhere() -> str:
    return f"Run the notebook on a login node of the cluster, or name hosts with {option('hosts')}."


def ask(*command: str, timeout_s: float = ANSWER_SECONDS) -> str:
    """Run a command of Slurm once, and return its output.

    Raises:
      LaunchError: The command failed (the message quotes its output), or does not answer in time.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=timeout_s,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(
            f"Slurm does not answer: {command[0]} took more than {timeout_s:g} s. {_elsewhere()}"
        ) from None
    except OSError as error:
        raise LaunchError(f"Slurm cannot be asked: {error}. {_elsewhere()}") from None
    if done.returncode != 0:
        said = done.stderr.strip() or f"{command[0]} failed"
        raise LaunchError(f"Slurm cannot be asked: {said}\n{_elsewhere()}")
    return done.stdout


def node_addresses(*, nodes: str | None, partition: str | None) -> tuple[str, ...]:
    """Return Slurm's own addresses of the nodes of an allocation, of a partition, or of all nodes; each once.

    Raises:
      LaunchError: Slurm cannot be queried.
    """
    chosen = (f"--nodes={nodes}",) if nodes else (f"--partition={partition}",) if partition else ()
    return tuple(
        dict.fromkeys(ask("sinfo", "--noheader", "--Node", "--format=%o", *chosen).split())
    )


OURS = {
    ("-n", "--ntasks"): "processes",
    ("-N", "--nodes"): "nodes",
    ("--ntasks-per-node",): "ntasks_per_node",
    ("-p", "--partition"): "partition",
    ("-A", "--account"): "account",
    ("-t", "--time"): "time",
    ("-D", "--chdir"): "cwd",
    ("--export",): "environment",
    ("-J", "--job-name"): "nbdist finds its jobs by it",
    ("-i", "--input"): "nbdist sends orders to the processes through it",
    ("-o", "--output"): "the processes answer through it",
    ("-e", "--error"): "failures are read from it",
    ("-u", "--unbuffered"): "the processes' answers would be mixed",
    ("--pty",): "the processes have no terminal",
    ("-Q", "--quiet"): "the queue's state is read from what srun says",
    ("-b", "--begin-only", "--test-only"): "nothing would be started",
    ("--multi-prog",): "all processes run one program",
}
"""Options of srun that nbdist sets itself, with nbdist's option to use instead, or why there is none."""


def placement(asked: StartOptions, hosts: Sequence[AskedHost], ssh: SshOptions) -> Placement:
    """Return the placement of processes on nodes that Slurm chooses.

    Args:
      asked: The options.
      hosts: The hosts that the user named, which Slurm does not accept.
      ssh: Only its interpreter, to be used on the nodes, is read.

    Raises:
      OptionError: Options that do not go together, or more nodes than there are.
      LaunchError: Slurm does not answer.
    """
    slurm = option("slurm", True)
    if hosts:
        names = compress(host.name for host in hosts)
        raise OptionError(
            f"{option('hosts')} with {slurm}: Slurm chooses the hosts. To have these, use "
            f"{option('slurm_options', [f'--nodelist={names}'])}"
        )
    if ssh.config is not None:
        raise OptionError(
            f"{option('ssh_config', ssh.config)}: with {slurm} nothing goes through ssh."
        )
    have_commands()
    inside = allocation(os.environ)
    job = slurm_job(asked, python=ssh.python, inside=inside)
    # This also checks, before anything is started, that Slurm answers.
    near = node_addresses(
        nodes=inside.node_list if inside is not None else None, partition=asked.partition
    )
    if inside is None and asked.nodes is not None and asked.nodes > len(near):
        where = f"partition {asked.partition}" if asked.partition else "this cluster"
        raise OptionError(
            f"{option('nodes', asked.nodes)}: {where} has {len(near)} nodes; such a job would wait for ever. Ask "
            f"for {len(near)} or fewer."
        )
    return Placement(launcher="slurm", job=replace(job, near=near[:NEAR]))


NEAR = 8
"""Nodes whose addresses show from which address of its own this machine reaches them."""


def slurm_job(asked: StartOptions, *, python: str, inside: Allocation | None) -> Job:
    """Return the new job, or the step of an existing allocation.

    Args:
      asked: The options.
      python: The interpreter on the nodes.
      inside: The allocation this kernel runs in.

    Raises:
      OptionError: Numbers that do not agree, or impossible options.
    """
    extra = further_options(
        asked.slurm_options,
        parameter="slurm_options",
        example="an option of srun, such as --gres=gpu:4",
        ours=OURS,
        is_one=_is,
    )
    count = agree(asked, inside)
    name = f"nbdist-{secrets.token_hex(4)}"
    command = ["srun", f"--job-name={name}", "--chdir=/", "--export=ALL"]
    command += ["--input=all", "--output=all", "--error=all"]
    # If one task ends or one node fails, the others must keep their variables.
    command += ["--kill-on-bad-exit=0", "--wait=0", "--no-kill"]
    if inside is not None:
        _refuse_inside(asked, inside)
        # This kernel may itself run in a step, which then holds the processors of its node.
        command += [f"--jobid={inside.job}", "--overlap"]
    for option_name in ("nodes", "ntasks_per_node", "partition", "account", "time"):
        value = getattr(asked, option_name)
        if value is not None:
            command.append(f"--{option_name.replace('_', '-')}={value}")
    return Job(
        command=(*command, *extra),
        task_variable="SLURM_PROCID",
        python=python,
        processes=count,
        name=name,
        allocation=None if inside is None else inside.job,
        gpus=any(_GPUS.match(word) for word in extra) or (inside is not None and inside.gpus),
        gpus_divided=any(_GPUS_OF_TASK.match(word) for word in extra),
    )


_GPUS = re.compile(r"--gpus|-G|--gres=.*gpu|--tres-per-\w+=.*gpu")
_GPUS_OF_TASK = re.compile(r"--gpus-per-task|--gpu-bind|--tres-per-task")


def agree(asked: StartOptions, inside: Allocation | None) -> int:
    """Return the number of processes, which must be known before the start.

    Raises:
      OptionError: The numbers do not agree, or exceed the allocation.
    """
    nodes, each, processes = asked.nodes, asked.ntasks_per_node, asked.processes
    for name, number in (("nodes", nodes), ("ntasks_per_node", each), ("processes", processes)):
        if number is not None and number < 1:
            raise OptionError(f"{option(name, number)}: must be 1 or more.")
    if inside is not None and nodes is not None and nodes > inside.nodes:
        raise OptionError(
            f"{option('nodes', nodes)}: this kernel runs in Slurm's allocation {inside.job}, which has "
            f"{inside.nodes} ({inside.node_list}). Ask for {inside.nodes} or fewer, or leave {option('nodes')} "
            "out."
        )
    if nodes is not None and each is not None:
        if processes is not None and processes != nodes * each:
            raise OptionError(
                f"{option('processes', processes)} with {option('nodes', nodes)} "
                f"{option('ntasks_per_node', each)}: {nodes} × {each} = {nodes * each}. Leave one of them out."
            )
        return nodes * each
    if processes is not None:
        if nodes is not None and processes < nodes:
            raise OptionError(
                f"{option('processes', processes)} with {option('nodes', nodes)}: a node without a process is "
                f"not used. Ask for {processes} nodes or fewer."
            )
        return processes
    if inside is not None:
        return _of_allocation(nodes, each, inside)
    if nodes is None:
        return each or DEFAULT_PROCESSES
    return nodes


def _of_allocation(nodes: int | None, each: int | None, inside: Allocation) -> int:
    if nodes is None and each is None and inside.tasks is not None:
        return inside.tasks
    return (nodes or inside.nodes) * (each or inside.tasks_per_node or 1)


def _refuse_inside(asked: StartOptions, inside: Allocation) -> None:
    for name, value in (("partition", asked.partition), ("account", asked.account)):
        if value is not None:
            raise OptionError(
                f"{option(name, value)}: this kernel runs in Slurm's allocation {inside.job}, which has its own. "
                "Leave the option out; for a job of its own, start the notebook outside of the allocation."
            )


def _is(word: str, names: Sequence[str]) -> bool:
    """Return whether a word is one of these options, with or without a value."""
    if word.startswith("--"):
        return word.partition("=")[0] in names
    return word.startswith("-") and word[:2] in names


QUEUE_SECONDS = 1.0
"""Seconds between two queries of the queue while a job waits."""

SETTLE_SECONDS = 1.0
"""Seconds after a job's end in which the queue may still call it running or completing."""

QUEUED = re.compile(r"srun: job (\d+) queued and waiting for resources")
ALLOCATED = re.compile(r"srun: job \d+ has been allocated resources")
STEP_WAITS = re.compile(r"srun: Job (\d+) step creation temporarily disabled, retrying \((.*)\)")
STEP_CREATED = re.compile(r"srun: Step created for job")
CANCELLED = re.compile(
    r"\*\*\* (?:STEP|JOB) (\d+)\S* ON \S+ CANCELLED AT \S+?( DUE TO [A-Z ]+?)? \*\*\*"
)
TASKS = re.compile(r"srun: error: (\S+): tasks? (\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*): (.+)")


@dataclass(frozen=True, slots=True)
class JobState:
    """State of a job in the queue; `reason` is empty if Slurm has none."""

    job: str
    state: str
    reason: str

    def __str__(self) -> str:
        return f"job {self.job} {self.state}" + (f" ({self.reason})" if self.reason else "")


class SlurmWatch(Watch):
    """Watch on a Slurm job: its state, from the output of `srun` and from the queue.

    Args:
      job: The job; its name is unique.
      asks: The function that queries Slurm; tests pass another.
    """

    def __init__(self, job: Job, *, asks: Callable[..., str] = ask) -> None:
        super().__init__("Slurm", "srun", python=job.python)
        self._name = job.name
        self._allocation = job.allocation
        self._ask = asks
        self._looked = float("-inf")
        self._state: JobState | None = None
        self._asked_for_end = False
        self._ending: str | None = None

    def waiting(self, lines: Sequence[str]) -> str | None:
        """Return the job's state in the queue, which is queried at most once a second."""
        text = "\n".join(lines)
        step = list(STEP_WAITS.finditer(text))
        if step and not STEP_CREATED.search(text):
            return f"step of job {step[-1][1]} waits ({step[-1][2]})"
        queued = QUEUED.search(text)
        if queued is None or ALLOCATED.search(text):
            return None
        now = time.monotonic()
        if now - self._looked >= QUEUE_SECONDS:
            self._state = self.look() or self._state
            self._looked = time.monotonic()
        return str(self._state or JobState(queued[1], "PENDING", ""))

    def look(self) -> JobState | None:
        """Return the job's present state in the queue, even shortly after its end; None if the queue lacks it."""
        which = f"--jobs={self._allocation}" if self._allocation else f"--name={self._name}"
        with contextlib.suppress(LaunchError):
            found = self._ask("squeue", "--noheader", "--states=all", which, "--format=%i|%T|%r")
            rows = [line.strip().split("|", 2) for line in found.splitlines()]
            # After a restart, an earlier job of the session may have the same name.
            job, state, reason = max(rows, key=lambda row: _order(row[0]), default=("", "", ""))
            return JobState(job, state, "" if reason == "None" else reason) if job else None
        return None

    def ending(self, lines: Sequence[str]) -> str | None:
        """Return the job's last state, unless it is that of a job that has ended by itself."""
        if not self._asked_for_end:
            self._asked_for_end = True
            self._ending = _cancelled(lines) or self._last_state()
        return self._ending

    def _last_state(self) -> str | None:
        until = time.monotonic() + SETTLE_SECONDS
        while (found := self.look()) is not None and time.monotonic() < until:
            if found.state not in ("RUNNING", "COMPLETING"):
                break
            time.sleep(0.1)
        if found is None or found.state in ("RUNNING", "COMPLETING", "COMPLETED"):
            return None
        state = ", ".join(filter(None, (found.state, found.reason)))
        return f"Slurm's job {found.job} ({state})"

    def ended_tasks(self, lines: Sequence[str]) -> dict[int, str]:
        """Return the tasks that have ended according to srun."""
        text = "\n".join(lines)
        if CANCELLED.search(text):
            return {}  # all tasks have ended, and `ending` says why
        return {
            task: f"{said} (host {host})"
            for host, tasks, said in TASKS.findall(text)
            for task in numbers_in(tasks)
        }

    def cancel(self) -> None:
        """Cancel the job by its name; if it is a step, its allocation is left to its owner."""
        with contextlib.suppress(LaunchError):
            self._ask("scancel", f"--name={self._name}")


def _cancelled(lines: Sequence[str]) -> str | None:
    """Return how the job ended as reported by the nodes, which know it before the queue does."""
    said = CANCELLED.search("\n".join(lines))
    if said is None:
        return None
    return f"Slurm's job {said[1]} (CANCELLED{said[2] or ''})"


def _order(job: str) -> list[int]:
    """Return a key that is larger for a later job: of `12`, or of `12_3` in an array of jobs."""
    return [int(number) for number in re.findall(r"\d+", job)]


LAUNCHER = ChosenLauncher(SLURM, placement, SlurmWatch)
