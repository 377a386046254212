"""A scheduler's command lives as long as its kernel, also while it reads nothing."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nbdist.launch.agents.agent_handle import JobAgent
from nbdist.launch.launchers import job_guard as hold
from tests.places import ROOT
from tests.waiting import WAIT_SECONDS, has_ended, wait_for

DEAF = "import time\nprint('there', flush=True)\ntime.sleep(100)"
"""Reads nothing, as srun while its job waits."""
TIDY = "import sys, time\nprint('there', flush=True)\nsys.stdin.read()\ntime.sleep(0.3)\nprint('tidied')"


def held(*command: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        (sys.executable, "-m", "nbdist.launch.launchers.job_guard", *command),
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


@pytest.fixture
def deaf() -> Iterator[tuple[subprocess.Popen[bytes], psutil.Process]]:
    """A held command that reads nothing, and the command itself."""
    with held(sys.executable, "-c", DEAF) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"there\n"
        (command,) = psutil.Process(holder.pid).children()
        yield holder, command
        if holder.poll() is None:
            holder.kill()


def test_a_command_that_reads_nothing_ends_when_the_kernels_end_of_its_input_is_gone(
    deaf: tuple[subprocess.Popen[bytes], psutil.Process],
) -> None:
    holder, command = deaf
    assert holder.stdin is not None
    holder.stdin.close()
    wait_for(lambda: has_ended(command))
    assert holder.wait(WAIT_SECONDS) == 128 + signal.SIGTERM


def test_a_command_is_reported_at_once_when_its_holder_is_asked_to_end(
    deaf: tuple[subprocess.Popen[bytes], psutil.Process],
) -> None:
    holder, _ = deaf
    holder.terminate()
    assert holder.wait(WAIT_SECONDS) == 128 + signal.SIGTERM


@pytest.mark.skipif(
    sys.platform != "linux", reason="Only Linux tells a process of its parent's end."
)
def test_a_command_ends_when_its_holder_is_killed(
    deaf: tuple[subprocess.Popen[bytes], psutil.Process],
) -> None:
    holder, command = deaf
    holder.kill()
    wait_for(lambda: has_ended(command))


def test_a_command_that_ends_by_itself_is_left_the_time_to_do_so() -> None:
    with held(sys.executable, "-c", TIDY) as holder:
        assert holder.stdin is not None and holder.stdout is not None
        assert holder.stdout.readline() == b"there\n"
        holder.stdin.close()
        assert holder.stdout.read() == b"tidied\n"
        assert holder.wait(WAIT_SECONDS) == 0


def test_the_exit_status_is_the_commands(tmp_path: Path) -> None:
    with held("sh", "-c", "exit 7") as holder:
        assert holder.wait(WAIT_SECONDS) == 7
    with held(str(tmp_path / "none")) as holder:
        assert holder.stderr is not None
        assert b"no such command" in holder.stderr.read()


def test_tasks_have_less_time_to_end_than_the_kernel_waits_for_them() -> None:
    assert JobAgent.stop_seconds > hold.END_SECONDS + 2
