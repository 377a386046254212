"""A folder goes with the process that had it, however that ends."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

PROGRAM = """
import os, signal, sys
from nbdist.engine.sweep import sweep_after
sweep_after(sys.argv[1])
print("ready", flush=True)
if sys.stdin.readline() == "die\\n":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("order", ["die\n", ""])
def test_a_folder_is_there_as_long_as_its_process(tmp_path: Path, order: str) -> None:
    folder = tmp_path / "folder"
    (folder / "security").mkdir(parents=True)
    (folder / "security" / "key").touch()
    command = (sys.executable, "-c", PROGRAM, str(folder))
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as running:
        assert running.stdout is not None and running.stdin is not None
        assert running.stdout.readline() == "ready\n"
        assert folder.exists()
        # The end of its output shows that nobody else holds it.
        assert running.communicate(order, timeout=10) == ("", None)
    until = time.monotonic() + 10
    while folder.exists() and time.monotonic() < until:
        time.sleep(0.01)
    assert not folder.exists()
