"""Whether a session can go on with another number of processes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from nbdist.errors import OptionError
from nbdist.launch.model.framework import can_leave_out_hosts, why_fixed
from nbdist.launch.model.plan import Job, Placement, Plan
from nbdist.session import resizing
from tests.builders.hosts import plan_of

HERE = plan_of(processes=2)
JOB = Placement(job=Job(command=("srun",), task_variable="X", python="python", processes=4))


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        (
            replace(HERE, framework="tensorflow"),
            "for JAX, and for Keras on JAX; these compute with TensorFlow.",
        ),
        (replace(HERE, framework="keras", backend="torch"), "compute with Keras on torch"),
        (replace(HERE, addresses=("h1:1", "h2:1")), "Addresses were given to processes one by one"),
        (replace(HERE, platform="gpu"), "a GPU belongs to one process at a time"),
        (replace(HERE, placement=JOB), "tasks of a job, and a job keeps its size"),
        (replace(HERE, initialize=False), "The cells themselves have joined"),
        (
            replace(
                HERE, processes=tuple(replace(p, local_device_ids=(0,)) for p in HERE.processes)
            ),
            "Devices were given to processes one by one",
        ),
    ],
)
def test_what_keeps_its_number_says_why(asked: Plan, said: str) -> None:
    found = why_fixed(asked)
    assert found is not None and said in found
    assert why_fixed(HERE) is None
    assert why_fixed(replace(HERE, framework="keras", backend="jax")) is None


def test_tasks_of_an_allocation_may_become_others_in_another_step_of_it() -> None:
    command = ("srun", "--job-name=nbdist-1", "--jobid=7", "--nodes=2", "--ntasks-per-node=2", "-v")
    job = replace(JOB.job, command=command, name="nbdist-1", allocation="7")  # type: ignore[type-var]
    asked = replace(plan_of("h1", "h2"), placement=Placement(launcher="slurm", job=job))
    assert why_fixed(asked) is None and not can_leave_out_hosts(asked)
    found = resizing.planned(asked, 3)
    assert found.hosts == {0: "task 0", 1: "task 1", 2: "task 2"}
    again = found.placement.job
    assert again is not None and again.processes == 3
    # Who ends the step before by its name must not end this one.
    assert again.name != "nbdist-1"
    assert again.command == ("srun", f"--job-name={again.name}", "--jobid=7", "-v")
    with pytest.raises(OptionError, match="Slurm lays the tasks of a job on its nodes"):
        resizing.planned_without(asked, ["h2"])


def test_hosts_are_left_out_where_there_are_others() -> None:
    assert can_leave_out_hosts(plan_of("h1", "h2"))
    assert not can_leave_out_hosts(plan_of("h1"))
    assert not can_leave_out_hosts(replace(plan_of("h1", "h2"), framework="tensorflow"))
