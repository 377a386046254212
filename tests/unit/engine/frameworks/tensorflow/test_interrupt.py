"""Which interrupts have TensorFlow abort its collectives, without TensorFlow."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator

import pytest

from nbdist.engine.frameworks.tensorflow import interrupt
from nbdist.engine.frameworks.tensorflow.interrupt import Interrupts
from tests.waiting import wait_for


class Watched(Interrupts):
    """A main thread that is always in TensorFlow; counts the looks at it."""

    looks = 0

    def inside(self) -> bool:
        self.looks += 1
        return True


@pytest.fixture
def aborted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What collectives were aborted with; an interrupt ends nothing else meanwhile."""
    messages: list[str] = []
    monkeypatch.setattr(interrupt, "abort_collectives", messages.append)
    monkeypatch.setattr(interrupt, "PATIENCE_SECONDS", 0.01)
    before = signal.signal(signal.SIGINT, lambda number, frame: None)
    yield messages
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def watched() -> Iterator[Watched]:
    interrupts = Watched(threading.main_thread().ident or 0)
    interrupts.install()
    yield interrupts
    signal.set_wakeup_fd(interrupts._before)
    os.close(interrupts._wakeup_write)  # ends the thread that listens


def test_what_waits_is_aborted_once(
    monkeypatch: pytest.MonkeyPatch, aborted: list[str], watched: Watched
) -> None:
    monkeypatch.setattr(interrupt, "computes", lambda **_: False)
    watched.begin()
    signal.raise_signal(signal.SIGINT)
    wait_for(lambda: aborted)
    assert aborted == [interrupt.MESSAGE]


def test_an_interrupt_of_an_earlier_cell_that_is_seen_to_late_aborts_nothing(
    monkeypatch: pytest.MonkeyPatch, aborted: list[str], watched: Watched
) -> None:
    computing = threading.Event()
    computing.set()
    monkeypatch.setattr(interrupt, "computes", lambda **_: computing.is_set())
    watched.begin()
    signal.raise_signal(signal.SIGINT)
    wait_for(lambda: watched.looks > 1)
    # The thread is busy with the first one, and has not read the second when the next cell starts.
    signal.raise_signal(signal.SIGINT)
    watched.begin()
    computing.clear()
    looks = watched.looks
    with pytest.raises(AssertionError):
        wait_for(lambda: aborted, within_s=0.5)
    assert watched.looks <= looks + 1
    signal.raise_signal(signal.SIGINT)
    wait_for(lambda: aborted)
