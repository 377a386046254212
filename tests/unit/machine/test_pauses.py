"""Time in which a process did not run does not count as the silence of others."""

from __future__ import annotations

import io
import time

import pytest

from nbdist.agent import kernel_link
from nbdist.agent.kernel_link import PAUSE_SECONDS, Pauses, Pulse
from nbdist.contract.events import Events


class Clock:
    """Stands in for both clocks of a process."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(kernel_link, "clock_of_sleep", lambda: self.now)

    def run(self, seconds: float, each_second: object = None) -> None:
        """Time passes while the process runs, and looks once a second."""
        for _ in range(int(seconds)):
            self.now += 1.0
            if callable(each_second):
                each_second()


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_time_in_which_this_process_runs_counts(clock: Clock) -> None:
    ours = Pauses(clock=lambda: clock.now)
    clock.run(100, lambda: ours.ran_since(1000.0))
    assert ours.ran_since(1000.0) == 100.0


def test_after_a_pause_the_count_begins_anew(clock: Clock) -> None:
    ours = Pauses(clock=lambda: clock.now)
    clock.run(25, lambda: ours.ran_since(1000.0))
    clock.now += 600.0
    assert ours.ran_since(1000.0) == 0.0
    clock.run(31, lambda: ours.ran_since(1000.0))
    assert ours.ran_since(1000.0) == 31.0
    assert ours.ran_since(clock.now - 3.0) == 3.0


def test_a_slow_look_is_no_pause(clock: Clock) -> None:
    ours = Pauses(clock=lambda: clock.now)
    clock.now += PAUSE_SECONDS
    assert ours.ran_since(1000.0) == PAUSE_SECONDS


def test_sleep_of_the_machine_counts_as_a_pause_although_monotonic_time_stood_still(
    clock: Clock,
) -> None:
    slept = 0.0
    ours = Pauses(clock=lambda: clock.now + slept)
    clock.run(25, lambda: ours.ran_since(1000.0))
    slept = 3600.0
    assert ours.ran_since(1000.0) == 0.0


def test_the_real_clock_goes_on() -> None:
    before = kernel_link.clock_of_sleep()
    time.sleep(0.01)
    assert kernel_link.clock_of_sleep() > before


def test_a_host_that_was_stopped_itself_waits_for_its_kernel_anew(clock: Clock) -> None:
    pulse = Pulse(Events(io.StringIO()), 0, silence_s=900.0)
    pulse._pauses = Pauses(clock=lambda: clock.now)
    clock.now += 5000.0
    assert pulse.beat()
    believed = []
    clock.run(901, lambda: believed.append(pulse.beat()))
    assert believed == [True] * 899 + [False] * 2
