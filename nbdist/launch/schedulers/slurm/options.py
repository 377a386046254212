"""From the options of `--slurm` to the command line of `srun`."""

from __future__ import annotations

import re
import secrets
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.errors import OptionError
from nbdist.launch.model.placement import Job
from nbdist.launch.schedulers.further_options import further_options
from nbdist.launch.schedulers.slurm.allocation import Allocation
from nbdist.spelling import option

DEFAULT_PROCESSES = 2

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


@dataclass(frozen=True, slots=True, kw_only=True)
class SlurmOptions:
    """The options of `nbdist.start` that concern Slurm, under its names.

    `time` is a limit as Slurm reads it (minutes, `1:30:00`, `2-12`); `srun` gets `slurm_options` unchanged.
    """

    nodes: int | None = None
    ntasks_per_node: int | None = None
    partition: str | None = None
    account: str | None = None
    time: str | None = None
    slurm_options: Sequence[str] = ()


def slurm_job(
    asked: SlurmOptions, *, processes: int | None, python: str, inside: Allocation | None
) -> Job:
    """Return the job, or the step of an existing allocation.

    Args:
      asked: The options.
      processes: `-n`, if it was given.
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
    count = agree(asked, processes, inside)
    name = f"nbdist-{secrets.token_hex(4)}"
    command = ["srun", f"--job-name={name}", "--chdir=/", "--export=ALL"]
    command += ["--input=all", "--output=all", "--error=all"]
    # If one task ends or one node fails, the others must keep their variables.
    command += ["--kill-on-bad-exit=0", "--wait=0", "--no-kill"]
    if inside is not None:
        _refuse_inside(asked, inside)
        # This kernel may run in a step itself, which then holds the processors of its node.
        command += [f"--jobid={inside.job}", "--overlap"]
    for srun_option, value in (
        ("--nodes", asked.nodes),
        ("--ntasks-per-node", asked.ntasks_per_node),
        ("--partition", asked.partition),
        ("--account", asked.account),
        ("--time", asked.time),
    ):
        if value is not None:
            command.append(f"{srun_option}={value}")
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


def agree(asked: SlurmOptions, processes: int | None, inside: Allocation | None) -> int:
    """Return the number of processes, which must be known before they start.

    Raises:
      OptionError: The numbers do not agree, or are more than the allocation has.
    """
    nodes, each = asked.nodes, asked.ntasks_per_node
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


def _refuse_inside(asked: SlurmOptions, inside: Allocation) -> None:
    for name, value in (("partition", asked.partition), ("account", asked.account)):
        if value is not None:
            raise OptionError(
                f"{option(name, value)}: this kernel runs in Slurm's allocation {inside.job}, which has its own. "
                "Leave the option out; for a job of its own, start the notebook outside of the allocation."
            )


def _is(word: str, names: Sequence[str]) -> bool:
    """Return whether a word is one of these options, with its value or without."""
    if word.startswith("--"):
        return word.partition("=")[0] in names
    return word.startswith("-") and word[:2] in names
