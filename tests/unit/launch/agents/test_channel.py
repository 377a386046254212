"""Channels to agents: what becomes of them where the kernel is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psutil

from tests.waiting import wait_for

KERNEL = """
import os, sys, time, warnings
from pathlib import Path
from nbdist.launch.agents import Pipes
warnings.simplefilter("ignore")
agent = "import sys; print('there', flush=True); sys.stdin.read(); open('ended', 'w')"
channel = Pipes([sys.executable, "-c", agent], None, Path("log"))
next(iter(channel.lines()))
child = os.fork()
if child == 0:
    print(os.getpid(), flush=True)
    time.sleep(100)
    os._exit(0)
time.sleep(100)
"""


def test_the_orders_of_a_killed_kernel_end_though_a_child_that_it_has_forked_lives(
    tmp_path: Path,
) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", KERNEL], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as kernel:
        assert kernel.stdout is not None
        child = psutil.Process(int(kernel.stdout.readline()))
        try:
            kernel.kill()
            kernel.wait()
            wait_for((tmp_path / "ended").exists)
            assert child.is_running()  # it was there until now
        finally:
            child.kill()
