"""From options to mpirun's command line, what its words say, and its way of sending lines."""

from __future__ import annotations

import io
import random
import socket
from pathlib import Path
from typing import Any

import pytest

from nbdist.contract.events import Events, Fault, Lines
from nbdist.errors import OptionError
from nbdist.launch.launchers.mpi import MpiWatch, mpi_job
from nbdist.launch.model.hosts import SshOptions
from nbdist.launch.model.plan import Job
from nbdist.launch.model.start_options import StartOptions
from nbdist.launch.planning import choose_placement


@pytest.fixture
def mpirun(tmp_path: Path) -> str:
    path = tmp_path / "mpirun"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    return str(path)


def test_hosts_and_their_processes_are_named_in_order(mpirun: str) -> None:
    placement = choose_placement(StartOptions(mpi=True, hosts="h2,h1", processes=4, mpirun=mpirun))
    assert placement.job is not None
    command = placement.job.command
    assert command[command.index("--host") + 1] == "h2:2,h1:2"
    assert command[0] == mpirun and placement.job.processes == 4


def test_mpirun_reaches_hosts_with_the_persons_ssh_configuration(
    mpirun: str, tmp_path: Path
) -> None:
    config = tmp_path / "config"
    config.touch()
    placement = choose_placement(
        StartOptions(mpi=True, hosts="h1", mpirun=mpirun, ssh_config=str(config))
    )
    assert placement.job is not None
    command = placement.job.command
    agent = command[command.index("plm_rsh_agent") + 1].split()
    assert agent[0] == "ssh" and agent[agent.index("-F") + 1] == str(config)
    assert "-oBatchMode=yes" in agent
    with pytest.raises(OptionError, match="without spaces, colons and quotes"):
        mpi_job([("h1", 1)], SshOptions(python="python", config="/a b"), mpirun=mpirun)


def test_further_options_are_passed_on_and_nbdists_own_refused(mpirun: str) -> None:
    placement = choose_placement(
        StartOptions(
            mpi=True,
            hosts="h1",
            mpirun=mpirun,
            mpi_options=["--oversubscribe", "--mca btl tcp,self"],
        )
    )
    assert placement.job is not None
    assert placement.job.command[-4:] == ("--oversubscribe", "--mca", "btl", "tcp,self")
    with pytest.raises(OptionError, match="nbdist gives it itself; use --hosts"):
        choose_placement(
            StartOptions(mpi=True, hosts="h1", mpirun=mpirun, mpi_options=["--host h3"])
        )
    with pytest.raises(OptionError, match="expected an option of mpirun"):
        choose_placement(StartOptions(mpi=True, hosts="h1", mpirun=mpirun, mpi_options=["h3"]))


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"hosts": None}, "--mpi: name the hosts"),
        ({"hosts": "h1,localhost"}, "localhost is this machine.* leave --mpi out"),
        ({"hosts": "h1,127.0.0.1"}, "127.0.0.1 is this machine"),
        ({"hosts": f"h1,{socket.gethostname()}"}, f"{socket.gethostname()} is this machine"),
        ({"hosts": "me@h1:2"}, r"h1 has the user me.* ssh configuration"),
        ({"hosts": "h1:2222:2"}, "h1 has the port 2222"),
        ({"mpirun": "/nowhere/mpirun"}, "--mpirun /nowhere/mpirun: "),
        ({"mpirun": None}, "mpirun is not on this kernel's PATH"),
    ],
)
def test_what_mpirun_cannot_do_is_refused(
    mpirun: str, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any], said: str
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    asked = StartOptions(**{"mpi": True, "hosts": "h1", "mpirun": mpirun, **changes})
    with pytest.raises(OptionError, match=said):
        choose_placement(asked)


FRAME = "-" * 74


def test_of_mpiruns_words_those_that_say_why_are_kept() -> None:
    lines = [
        "ssh: Could not resolve hostname h9",
        FRAME,
        "ORTE was unable to reliably start one or more daemons.",
        *[f"  cause {i}" for i in range(30)],
        FRAME,
        "[1,0]<stderr>:last words",
        FRAME,
        "ORTE does not know how to route a message",
        FRAME,
    ]
    job = Job(command=("/opt/bin/mpirun",), task_variable="", python="python", processes=1)
    watch = MpiWatch(job)
    assert (watch.title, watch.waiting([]), watch.ended_tasks(lines)) == ("mpirun", None, {})
    reasons = watch.reasons(lines)
    assert reasons[:3] == (
        "ssh: Could not resolve hostname h9",
        "last words",
        "ORTE was unable to reliably start one or more daemons.",
    )
    assert len(reasons) == 2 + 8


def reported(task: int, count: int) -> tuple[bytes, list[str]]:
    """What a task writes: events long and short, some of which look like mpirun's own tags."""
    stream = io.StringIO()
    words = [f"{task}.{i} [1,0]<stdout>: {'x' * (i * 173 % 2500)}" for i in range(count)]
    for word in words:
        Events(stream, task).send(Fault(text=word))
    return stream.getvalue().encode(), words


def test_events_survive_being_cut_anywhere_and_mixed_as_open_mpi_does() -> None:
    """Source: orte/mca/iof/base/iof_base_output.c of Open MPI 4.1, and what mpirun 4.1.4 wrote."""
    chance = random.Random(4)
    left = {task: reported(task, 20)[0] for task in range(4)}
    sent = b""
    while any(left.values()):
        task = chance.choice([task for task, text in left.items() if text])
        size = chance.randint(1, 4096)
        piece, left[task] = left[task][:size], left[task][size:]
        tag = b"[1,%d]<stdout>:" % task
        ends = piece.endswith(b"\n")
        sent += tag + piece.removesuffix(b"\n").replace(b"\n", b"\n" + tag) + b"\n" * ends
    lines = Lines()
    found: dict[int, list[str]] = {task: [] for task in range(4)}
    for line in sent.splitlines(keepends=True):
        event = lines.take(line)
        if event is not None:
            assert isinstance(event.event, Fault) and event.task is not None
            found[event.task].append(event.event.text)
    assert found == {task: reported(task, 20)[1] for task in range(4)}


def test_an_event_over_ssh_may_hold_what_looks_like_a_tag() -> None:
    stream = io.StringIO()
    said = Fault(text="[1,0]<stdout>:nbdist 0 1 {}")
    Events(stream).send(said)
    event = Lines().take(stream.getvalue().encode())
    assert event is not None and event.event == said
