"""A call that an interrupt does not end halfway."""

from __future__ import annotations

import signal
import subprocess
import sys
import threading

import pytest

from nbdist.launch.start.cluster import to_the_end


def test_an_interrupt_ends_the_waiting_and_the_call_goes_on() -> None:
    done = threading.Event()
    interrupted = threading.Event()
    main = threading.main_thread().ident
    assert main is not None

    def call() -> None:
        signal.pthread_kill(main, signal.SIGINT)
        assert interrupted.wait(30)
        done.set()

    with pytest.raises(KeyboardInterrupt):
        to_the_end(call)
    assert not done.is_set()
    interrupted.set()
    assert done.wait(30)


def test_it_returns_when_the_call_has_ended_and_raises_what_it_raised() -> None:
    done: list[int] = []
    to_the_end(lambda: done.append(1))
    assert done == [1]
    with pytest.raises(ZeroDivisionError):
        to_the_end(lambda: print(1 // 0))


def test_a_program_that_ends_can_still_call_it() -> None:
    code = (
        "import atexit; from nbdist.launch.start.cluster import to_the_end\n"
        "atexit.register(lambda: to_the_end(lambda: print('called')))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert (ended.stdout, ended.stderr) == ("called\n", "")
