"""The allocation of Slurm in which this kernel runs, as its variables describe it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The size of an allocation, as `salloc` or `sbatch` was asked for it.

    `tasks` and `tasks_per_node` are None if nobody asked for a number; `gpus` says that it has GPUs.
    """

    job: str
    nodes: int
    node_list: str
    tasks: int | None = None
    tasks_per_node: int | None = None
    gpus: bool = False


def allocation(environment: Mapping[str, str]) -> Allocation | None:
    """Return the allocation these variables name; None if they name none.

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
