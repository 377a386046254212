"""From options to srun's command line, and what its words and the queue's say."""

from __future__ import annotations

from typing import Any

import pytest

from nbdist.errors import LaunchError, OptionError
from nbdist.launch.launchers import job_agents, job_environment
from nbdist.launch.launchers.slurm import (
    Allocation,
    SlurmWatch,
    allocation,
    ask,
    have_commands,
    slurm_job,
)
from nbdist.launch.model.plan import Job, Placement
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import make_plan
from nbdist.magics.options import parser, start_arguments

INSIDE = Allocation(job="12", nodes=2, node_list="h[1-2]", tasks_per_node=4)


def made(processes: int | None = None, inside: Allocation | None = None, **asked: object) -> Job:
    options = StartOptions(processes=processes, **asked)  # type: ignore[arg-type]
    return slurm_job(options, python="python", inside=inside)


def test_the_job_gets_what_was_asked_for_and_no_more() -> None:
    job = made(nodes=2, ntasks_per_node=4, partition="gpu", account="us", time="1:00:00")
    asked = [
        word for word in job.command if word.startswith(("--nodes", "--nt", "--pa", "--ac", "--ti"))
    ]
    assert asked == [
        "--nodes=2",
        "--ntasks-per-node=4",
        "--partition=gpu",
        "--account=us",
        "--time=1:00:00",
    ]
    assert job.processes == 8
    assert f"--job-name={job.name}" in job.command, (
        "the queue is asked for it, and it is cancelled by it"
    )
    assert not {word.partition("=")[0] for word in made().command} & {
        "--nodes",
        "--time",
        "--jobid",
    }


@pytest.mark.parametrize(
    ("processes", "nodes", "each", "expected"),
    [
        (None, None, None, 2),
        (5, None, None, 5),
        (None, 3, None, 3),
        (None, None, 4, 4),
        (None, 3, 4, 12),
        (12, 3, 4, 12),
        (5, 2, None, 5),
        (5, None, 2, 5),
    ],
)
def test_the_number_of_processes_is_known_before_the_start(
    processes: int | None, nodes: int | None, each: int | None, expected: int
) -> None:
    assert made(processes, nodes=nodes, ntasks_per_node=each).processes == expected


@pytest.mark.parametrize(
    ("asked", "inside", "said"),
    [
        ({"processes": 5, "nodes": 2, "ntasks_per_node": 2}, None, "-n 5 with .*: 2 × 2 = 4"),
        ({"processes": 2, "nodes": 3}, None, "-n 2 with --nodes 3"),
        ({"nodes": 0}, None, "--nodes 0: "),
        ({"nodes": 3}, INSIDE, r"--nodes 3: .* allocation 12, which has 2 \(h\[1-2\]\)"),
        ({"partition": "gpu"}, INSIDE, r"--partition gpu: .* allocation 12, "),
    ],
)
def test_numbers_that_do_not_agree_are_refused(
    asked: dict[str, Any], inside: Allocation | None, said: str
) -> None:
    with pytest.raises(OptionError, match=said):
        made(inside=inside, **asked)


def test_in_an_allocation_there_are_as_many_processes_as_it_has_tasks() -> None:
    assert made(inside=INSIDE).processes == 8
    assert made(inside=INSIDE, nodes=1).processes == 4
    assert {"--jobid=12", "--overlap"} <= set(made(inside=INSIDE).command)


def test_an_allocation_is_read_from_its_variables() -> None:
    assert allocation({}) is None
    assert allocation({"SLURM_PROCID": "3"}) is None
    found = allocation(
        {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NTASKS": "6", "SLURM_JOB_GPUS": "0,1"}
    )
    assert found == Allocation(job="7", nodes=2, node_list="", tasks=6, gpus=True)
    assert made(inside=found).processes == 6


def test_further_options_are_passed_on_and_nbdists_own_refused() -> None:
    job = made(slurm_options=["--gres=gpu:4 --exclusive", "--mem 4G"])
    assert job.command[-4:] == ("--gres=gpu:4", "--exclusive", "--mem", "4G")
    for line in ("-n4", "--output=x", "-o x", "--pty", "--export=NONE"):
        with pytest.raises(OptionError, match="nbdist gives it itself"):
            made(slurm_options=[line])
    with pytest.raises(OptionError, match="expected an option of srun"):
        made(slurm_options=["gres=gpu:4"])


def test_a_kernel_without_slurms_commands_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(OptionError, match="srun, squeue, sinfo, scancel are not on this kernel's"):
        have_commands()
    with pytest.raises(LaunchError, match=r"Slurm cannot be asked: .*sinfo"):
        ask("sinfo")


def test_slurms_own_words_are_reported_and_its_silence() -> None:
    with pytest.raises(LaunchError, match="Slurm cannot be asked: connect failure"):
        ask("sh", "-c", "echo connect failure >&2; exit 1")
    with pytest.raises(LaunchError, match=r"sleep took more than 0\.1 s"):
        ask("sleep", "60", timeout_s=0.1)


def test_the_tasks_do_not_take_themselves_for_what_the_kernel_is() -> None:
    given = {
        "SLURM_JOB_ID": "1",
        "SLURM_CONF": "x",
        "SLURM_PROCID": "3",
        "SLURM_CPU_BIND": "y",
        "SLURM_STEP_ID": "0",
        "TF_CONFIG": "{}",
        "OMPI_MCA_btl": "tcp",
        "OMPI_COMM_WORLD_RANK": "1",
        "PMIX_RANK": "1",
        "HOME": "/root",
    }
    assert set(job_environment(given)) == {"SLURM_JOB_ID", "SLURM_CONF", "OMPI_MCA_btl", "HOME"}


def test_all_tasks_run_one_parent_each() -> None:
    job = made(processes=3, nodes=3)
    reach = job_agents(job, SlurmWatch(job), tasks=3, environment={})
    assert reach.command[-8:] == (
        "-n", "3", "python", "-u", "-m", "nbdist.agent", "--task", "SLURM_PROCID",
    )  # fmt: skip
    assert (reach.name, reach.remote) == ("Slurm", True)


def test_gpus_of_a_host_are_divided_among_its_tasks_once_it_is_known_which_those_are() -> None:
    def ids(*extra: str, **asked: object) -> list[object]:
        placement = Placement(launcher="slurm", job=made(4, slurm_options=list(extra)))
        plan = make_plan(StartOptions(processes=4, **asked), placement)  # type: ignore[arg-type]
        assert plan.platform == "gpu"
        placed = plan.placed({0: "h1", 1: "h1", 2: "h2", 3: "h3"})
        assert [p.slot for p in placed.processes] == [0, 1, 0, 0]
        return [p.local_device_ids for p in placed.processes]

    assert ids("--gres=gpu:4") == [(0,), (1,), None, None]
    assert ids("--gres=gpu:4", devices_per_process=2) == [(0, 1), (2, 3), (0, 1), (0, 1)]
    assert ids("--gpus-per-task=1") == [None] * 4
    named = [(3,), (2,), (1,), (0,)]
    assert ids("--gpus=4", local_device_ids=named) == named


def test_evaluators_are_refused() -> None:
    placement = Placement(launcher="slurm", job=made(2))
    with pytest.raises(OptionError, match="all tasks of a job are workers"):
        make_plan(StartOptions(framework="tensorflow", evaluators=1), placement)


class Queue:
    """In place of Slurm's commands."""

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, ...]] = []

    def __call__(self, *command: str) -> str:
        self.asked.append(command)
        if not self.answers:
            raise LaunchError("Slurm does not answer.")
        return self.answers.pop(0)


def watch(*answers: str, allocation: str | None = None) -> tuple[SlurmWatch, Queue]:
    queue = Queue(*answers)
    job = Job(
        command=(),
        task_variable="",
        python="python",
        processes=1,
        name="nbdist-1",
        allocation=allocation,
    )
    return SlurmWatch(job, asks=queue), queue


ALLOCATED = "srun: job 12 has been allocated resources"
QUEUED = "srun: job 12 queued and waiting for resources"


def test_a_job_waits_from_being_queued_until_it_is_allocated() -> None:
    found, queue = watch("12|PENDING|Resources\n")
    assert found.waiting([]) is None
    assert found.waiting([QUEUED]) == "job 12 PENDING (Resources)"
    assert found.waiting([QUEUED]) == "job 12 PENDING (Resources)"
    assert len(queue.asked) == 1
    assert found.waiting([QUEUED, ALLOCATED]) is None


@pytest.mark.parametrize(
    ("answers", "waits"),
    [
        (
            ["9|CANCELLED|None\n12|PENDING|Resources\n8|COMPLETED|None\n"],
            "job 12 PENDING (Resources)",
        ),
        (
            ["9|COMPLETED|None\n12_[3-4%2]|PENDING|Resources\n12_2|RUNNING|None\n"],
            "job 12_[3-4%2] PENDING (Resources)",
        ),
        ([], "job 12 PENDING"),
    ],
    ids=["of several the last", "of an array the last", "no answer"],
)
def test_the_queue_says_how_the_last_job_of_this_name_waits(answers: list[str], waits: str) -> None:
    assert watch(*answers)[0].waiting([QUEUED]) == waits


def test_a_step_waits_until_it_is_created() -> None:
    found, _ = watch(allocation="7")
    waits = "srun: Job 7 step creation temporarily disabled, retrying (Requested nodes are busy)"
    assert "job 7 waits (Requested nodes are busy)" in (found.waiting([waits]) or "")
    begins = "srun: Step created for job 7"
    assert found.waiting([waits, begins]) is None


def test_the_end_of_a_job_has_the_state_and_reason_of_the_queue() -> None:
    found, queue = watch("12|TIMEOUT|TimeLimit\n")
    assert found.ending([QUEUED]) == "Slurm's job 12 (TIMEOUT, TimeLimit)"
    assert found.ending([QUEUED]) == "Slurm's job 12 (TIMEOUT, TimeLimit)"
    assert len(queue.asked) == 1


def test_a_job_that_ended_by_itself_was_ended_by_nobody_and_one_is_cancelled_by_its_name() -> None:
    found, queue = watch("12|COMPLETING|None\n", "12|COMPLETED|None\n", "")
    assert found.ending([]) is None
    found.cancel()
    assert queue.asked[-1] == ("scancel", "--name=nbdist-1")


def test_the_words_of_the_nodes_are_there_before_the_queue_knows() -> None:
    found, queue = watch()
    line = "slurmstepd-h1: error: *** STEP 12.0 ON h1 CANCELLED AT 2026-11-20T15:47:35"
    assert found.ending([f"{line} DUE TO TIME LIMIT ***"]) == (
        "Slurm's job 12 (CANCELLED DUE TO TIME LIMIT)"
    )
    assert watch()[0].ending([f"{line} ***"]) == "Slurm's job 12 (CANCELLED)"
    assert queue.asked == []


def test_tasks_that_end_alone_are_named_with_their_host() -> None:
    lines = [
        "srun: error: h1: tasks 0-1,4: Killed",
        "srun: error: h2: task 2: Exited with exit code 1",
        "srun: error: h3: tasks 5-,: Killed",
    ]
    assert watch()[0].ended_tasks(lines) == {
        0: "Killed (host h1)",
        1: "Killed (host h1)",
        4: "Killed (host h1)",
        2: "Exited with exit code 1 (host h2)",
    }


def test_options_of_srun_may_follow_as_they_are_written_in_a_shell() -> None:
    line = "--slurm -N 2 --slurm-option --gres=gpu:4 --slurm-option='--mem 4G' --time 1:00:00"
    arguments = start_arguments(parser("dist_init").parse(line))
    assert arguments["slurm_options"] == ("--gres=gpu:4", "--mem 4G")
    assert (arguments["nodes"], arguments["time"]) == (2, "1:00:00")
    with pytest.raises(OptionError, match="no option '--gres=gpu:4'"):
        parser("dist_init").parse("--slurm --gres=gpu:4")
