"""Orders of a kept agent come through a pipe that several kernels write to, of which any may be killed."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nbdist.launch.agents.fifo_channel import FoundAgain, LastingChild
from tests.waiting import WAIT_SECONDS, wait_for

ECHO = """
import sys
for line in sys.stdin:
    print(len(line), line[:40].rstrip(), flush=True)
"""


@pytest.fixture
def kept(tmp_path: Path) -> Iterator[LastingChild]:
    found = LastingChild(
        [sys.executable, "-c", ECHO], None, tmp_path / "host.log", first=b"x" * 200_000
    )
    yield found
    found.process.kill()
    found.process.wait(10)
    found.close()


def orders(channel: FoundAgain) -> Iterator[bytes]:
    """Those that have come, without the empty ones, which agents pass over."""
    return (line for line in channel.lines() if line != b"1 \n")


def test_half_an_order_of_a_kernel_that_is_killed_spoils_none_of_another_that_is_there_already(
    kept: LastingChild,
) -> None:
    assert kept.spot is not None
    other = FoundAgain(kept.spot)
    came = orders(other)
    kept.send(b"")
    assert next(came).startswith(b"200001 xxx")  # a first order that no pipe holds is whole
    for _ in range(2):
        pipe = os.open(kept.spot.orders, os.O_WRONLY)
        os.write(pipe, b'{"order": "st')
        os.close(pipe)
        other.send(b'{"order": "keep"}\n')
        assert next(came) == b'14 {"order": "st\n'
        assert next(came) == b'18 {"order": "keep"}\n'
    other.close()


KERNEL = """
import fcntl, os, sys, time, warnings
from nbdist.launch.agents.fifo_channel import FoundAgain, Spot
warnings.simplefilter("ignore")
pid, began, orders, events = sys.argv[1:]
channel = FoundAgain(Spot(pid=int(pid), began=began, orders=orders, events=events))
fcntl.flock(channel._orders, fcntl.LOCK_EX)  # as in the middle of an order
if os.fork() == 0:
    print(os.getpid(), flush=True)
    time.sleep(100)
    os._exit(0)
time.sleep(100)
"""


def test_a_kernel_that_is_killed_in_the_middle_of_an_order_keeps_no_other_from_sending(
    kept: LastingChild,
) -> None:
    spot = kept.spot
    assert spot is not None
    words = (str(spot.pid), spot.began, spot.orders, spot.events)
    command = (sys.executable, "-c", KERNEL, *words)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as kernel:
        assert kernel.stdout is not None
        child = psutil.Process(int(kernel.stdout.readline()))
        sending = threading.Thread(target=kept.send, args=(b"two\n",), daemon=True)
        try:
            sending.start()
            kernel.kill()
            kernel.wait()
            sending.join(WAIT_SECONDS)
            assert not sending.is_alive()
            assert child.is_running()  # it was there until now
        finally:
            child.kill()
    wait_for(lambda: b"4 two\n" in kept.backlog())
