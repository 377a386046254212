"""A folder goes with the process that had it, however that ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.waiting import wait_for

PROGRAM = """
import os, signal, sys
from nbdist.machine.folder import end, sweep_after
sweeper = sweep_after(sys.argv[1])
print(sweeper, flush=True)
order = sys.stdin.readline()
if order == "die\\n":
    os.kill(os.getpid(), signal.SIGKILL)
if order == "end\\n":
    end(sweeper)
"""


@pytest.mark.parametrize("order", ["die\n", "", "end\n"])
def test_a_folder_is_there_as_long_as_its_process_and_nobody_waits_longer(
    tmp_path: Path, order: str
) -> None:
    folder = tmp_path / "folder"
    (folder / "security").mkdir(parents=True)
    (folder / "security" / "key").touch()
    command = (sys.executable, "-c", PROGRAM, str(folder))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stdin is not None
        sweeper = psutil.Process(int(running.stdout.readline()))
        assert folder.exists()
        # The end of its output shows that nobody else holds it.
        assert running.communicate(order, timeout=10) == ("", None)
    if order == "end\n":
        assert folder.exists() and not sweeper.is_running()
        return
    sweeper.wait(10)
    assert not folder.exists()


def test_what_a_process_writes_after_a_scheduler_has_told_all_to_end_goes_as_well(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    command = (sys.executable, "-c", PROGRAM, str(folder))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None
        sweeper = psutil.Process(int(running.stdout.readline()))
        sweeper.terminate()
        wait_for(lambda: not folder.exists())
        time.sleep(1)  # longer than it waits for the last writes of one that has ended
        (folder / "ipython").mkdir(parents=True)
        wait_for(lambda: not folder.exists())
        running.communicate("die\n", timeout=10)
    sweeper.wait(10)
    assert not folder.exists()
