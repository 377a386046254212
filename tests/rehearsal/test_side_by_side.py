"""Cells and scripts on several meshes side by side, with the compiler."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time

import psutil
import pytest
from jupyter_client.manager import KernelManager

from nbdist.errors import ProcessError
from nbdist.rehearsal.cells import Rehearsing
from tests.rehearsal.test_cells import START

STEP = START + "step = jax.jit(lambda x: (x @ x.T).mean()); loss = step(x); print('hi')"
MESHES = ("data=4,model=4", "data=2,model=8")

STUCK = """
import ctypes, os, pathlib
pathlib.Path({folder!r}).mkdir(exist_ok=True)
pathlib.Path({folder!r}, str(os.getpid())).touch()
ctypes.PyDLL(None).sleep(600)
"""
"""As the compiler does it does not look at signals, and lets no other Python run."""


@pytest.fixture
def rehearsing():
    found = Rehearsing()
    yield found
    found.end()


def run(rehearsing, code, **options):
    return rehearsing.run(code, **{"topology": None, "meshes": (), **options})


def started(folder, count):
    """The ids of the processes that are stuck, once so many are."""
    until = time.monotonic() + 120
    while len(pids := [int(path.name) for path in folder.glob("*")]) < count:
        assert time.monotonic() < until
        time.sleep(0.1)
    assert all(map(psutil.pid_exists, pids))
    return pids


def test_a_cell_is_compared_and_its_names_stay_for_the_next(rehearsing, capsys):
    first = run(rehearsing, STEP, topology="v5e:4x4", meshes=MESHES)
    assert [one.pod.mesh for one in first.rehearsed] == list(MESHES)
    assert [row.program for row in first.figures] == ["jit__lambda"] * 2
    assert first.output_text() == "hi"
    assert first.details().count("jit__lambda: fits") == 2
    assert all(row.total and row.bound_s for row in first.figures)
    second = run(rehearsing, "jax.jit(lambda x: -x)(x); print(mesh.shape['data'])")
    assert [one.output for one in second.rehearsed] == ["4\n", "2\n"]
    third = run(rehearsing, "pod.programs[0]")
    assert all("jit__lambda: fits" in one.output for one in third.rehearsed)
    assert not any(one.programs for one in third.rehearsed)
    assert "starts over" not in capsys.readouterr().out


def test_one_that_fails_is_named_and_the_other_shown(rehearsing):
    code = STEP + "\nif mesh.shape['data'] == 2: float(loss)"
    found = run(rehearsing, code, topology="v5e:4x4", meshes=MESHES)
    assert [bool(one.failure) for one in found.rehearsed] == [False, True]
    assert found.rehearsed[1].failure.startswith("ValueNeeded")
    assert len(found.figures) == 2
    with pytest.raises(ProcessError, match=r"failed with each mesh(.|\n)*data=2,model=8 failed"):
        run(rehearsing, "float(loss)")


DONATED = """
step = jax.jit(lambda a, b: (a + b, a - b), donate_argnums=(0, 1))
y, z = step(x, x * 2)
if mesh.shape["data"] == 2:
    {wrong}
"""
"""Wrong with one of the meshes only."""


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("step(y, y)", "arrays 0, 1"),
        ("step(x, y)", "donated to <lambda> in line 7 of"),
        ("print(x + 1)", "donated to <lambda> in line 7 of"),
    ],
    ids=["given twice", "given again", "used again"],
)
def test_what_was_donated_before_is_named_with_its_line_and_the_other_mesh_is_shown(
    rehearsing, wrong, why
):
    # The first line is as the magic gives it, so that lines have the numbers that the notebook shows.
    code = "# %%dist_rehearse" + START + DONATED.format(wrong=wrong)
    line = 1 + code.splitlines().index(f"    {wrong}")
    found = run(rehearsing, code, topology="v5e:4x4", meshes=MESHES)
    good, bad = found.rehearsed
    assert not good.failure
    assert why in bad.failure
    assert f"line {line} of the cell: {wrong}" in bad.failure
    assert bad.failure in found.text()
    # Both have compiled the step before.
    assert [row.mesh for row in found.figures if row.program == "jit__lambda"] == list(MESHES)
    again = run(rehearsing, "print(y.sharding.mesh.shape['data'], z.shape)")
    assert [one.output for one in again.rehearsed] == ["4 (512, 256)\n", "2 (512, 256)\n"]


def test_one_that_takes_too_long_is_interrupted_and_the_other_shown(rehearsing, tmp_path, capsys):
    stuck = STUCK.format(folder=str(tmp_path)).replace("\n", "\n    ")
    run(rehearsing, START, topology="v5e:4x4", meshes=MESHES)
    # The cell with the other mesh has hardly anything to do, but has taken more than 3 s on a busy machine.
    found = run(rehearsing, f"if mesh.shape['data'] == 2:\n    {stuck}", timeout_s=20)
    assert "--timeout 20" in found.rehearsed[1].failure
    assert not found.rehearsed[0].failure
    # Its own interrupt has ended the cell, and the names of both stay.
    again = run(rehearsing, "print(x.shape)")
    assert [one.output for one in again.rehearsed] == ["(512, 256)\n"] * 2
    assert "starts over" not in capsys.readouterr().out


def test_an_interrupt_of_the_kernel_ends_all_processes(tmp_path):
    manager = KernelManager()
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=120)
        client.execute("%load_ext nbdist")
        options = " ".join(f"--mesh {mesh}" for mesh in MESHES)
        cell = f"%%dist_rehearse --topology v5e:4x4 {options}\n{STUCK.format(folder=str(tmp_path))}"
        asked = client.execute(cell)
        pids = started(tmp_path, 2)
        manager.interrupt_kernel()
        reply = None
        while reply is None or reply["parent_header"]["msg_id"] != asked:
            reply = client.get_shell_msg(timeout=120)
        content = reply["content"]
        assert (content["status"], content["ename"]) == ("error", "KeyboardInterrupt")
        assert all(f"{mesh}: running, " in content["evalue"] for mesh in MESHES)
        assert not any(map(psutil.pid_exists, pids))
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def train(tmp_path):
    """Write a script; return the command that rehearses it with both meshes."""

    def write(code):
        file = tmp_path / "train.py"
        file.write_text(code)
        options = ["--topology", "v5e:4x4", *(f"--mesh={mesh}" for mesh in MESHES)]
        return [sys.executable, "-m", "nbdist.cli", "rehearse", str(file), *options]

    return write


def test_a_script_is_compared(train):
    done = subprocess.run([*train(STEP), "--json"], capture_output=True, text=True)
    said = json.loads(done.stdout)
    assert (done.returncode, said["exit_code"]) == (0, 0)
    assert [one["mesh"] for one in said["rehearsals"]] == list(MESHES)
    assert [row["mesh"] for row in said["comparison"]] == list(MESHES)
    assert "data=4,model=4: ended with 1 program" in done.stderr


def test_a_script_that_fails_with_one_mesh_is_code_2_and_its_line_is_named(train):
    code = START + DONATED.format(wrong="step(y, y)")
    done = subprocess.run([*train(code), "--json"], capture_output=True, text=True)
    assert done.returncode == 2
    good, bad = json.loads(done.stdout)["rehearsals"]
    assert (good["failure"], len(good["programs"]), good["fits"]) == ("", 1, True)
    line = 1 + code.splitlines().index("    step(y, y)")
    assert re.search(rf"line {line} of .*train\.py: step\(y, y\)", bad["failure"])
    assert len(bad["programs"]) == 1


def test_an_interrupt_of_the_command_ends_all_processes(train, tmp_path):
    code = STUCK.format(folder=str(tmp_path / "pids"))
    command = subprocess.Popen(train(code), stderr=subprocess.PIPE, text=True)
    pids = started(tmp_path / "pids", 2)
    os.kill(command.pid, signal.SIGINT)
    _, said = command.communicate(timeout=120)
    assert command.returncode == 130
    assert all(f"{mesh}: running, " in said for mesh in MESHES)
    assert not any(map(psutil.pid_exists, pids))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux ends a process with its parent")
def test_a_command_that_is_killed_leaves_no_process(train, tmp_path):
    command = subprocess.Popen(
        train(STUCK.format(folder=str(tmp_path / "pids"))),
        env={**os.environ, "TMPDIR": str(tmp_path)},  # what it has made there nobody removes
    )
    pids = started(tmp_path / "pids", 2)
    command.kill()
    command.wait()
    _, left = psutil.wait_procs(map(psutil.Process, filter(psutil.pid_exists, pids)), timeout=120)
    for process in left:
        process.kill()
    assert not left
