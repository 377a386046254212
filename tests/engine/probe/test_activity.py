"""The state of the main thread, also where the operating system says less than Linux does."""

import sys
import threading
import time
from types import SimpleNamespace

import pytest

from nbdist.engine.cell import stacks as main_thread_module
from nbdist.engine.cell.running import CurrentCell, Position
from nbdist.engine.cell.stacks import CodeOwners, MainThread
from nbdist.engine.frameworks import frameworks
from nbdist.engine.probe.activity import ActivityReader

OWNERS = CodeOwners(frameworks())


def blocked(inside, *, compiling=False, source=None):
    return Position(3, source, compiling, inside)


class Thread:
    """A main thread of which a test says what the operating system would."""

    def __init__(self, *, share=0.0, for_a_thread=True):
        self.share, self.for_a_thread = share, for_a_thread

    def busy_share(self):
        return self.share

    def waits_for_a_thread(self):
        return self.for_a_thread


@pytest.mark.parametrize(
    ("place", "thread", "expected"),
    [
        (blocked("framework"), Thread(), True),
        (blocked("framework"), Thread(share=0.5), False),
        (blocked("framework", compiling=True), Thread(), False),
        (blocked("agreement"), Thread(share=0.5), True),
        (blocked("agreement"), Thread(share=None), True),
        (blocked("library"), Thread(), False),
        (blocked("user"), Thread(), True),
        (blocked("user"), Thread(for_a_thread=False), False),
        (blocked("user", source="y.block_until_ready()"), Thread(for_a_thread=None), True),
        (blocked("user", source="y = f(x)"), Thread(for_a_thread=None), False),
        (blocked("framework"), Thread(share=None), False),
    ],
)
def test_waiting_is_standing_in_the_framework_without_compiling_or_computing(
    place, thread, expected
):
    assert (
        ActivityReader(CurrentCell(), thread, OWNERS)._waits(place, thread.busy_share()) is expected
    )


def test_seconds_count_from_the_start_of_the_cell_and_of_the_line(monkeypatch):
    cell = CurrentCell()
    activity = ActivityReader(cell, MainThread(threading.get_ident()), OWNERS)
    line = [1]
    monkeypatch.setattr(
        "nbdist.engine.probe.activity.place",
        lambda stack, cell, owners: Position(line[0], "x", False, "user"),
    )
    cell.started(4, "x\ny")
    began = cell.running.started
    at = [began]
    monkeypatch.setattr(time, "monotonic", lambda: at[0])
    seconds = []
    for now, at_line in ((1, 1), (3, 1), (4, 2), (6, 2)):
        at[0], line[0] = began + now, at_line
        section = activity.look(None)
        seconds.append((section.cell_seconds, section.line_seconds))
    assert [tuple(round(s, 3) for s in pair) for pair in seconds] == [
        (1, 0),
        (3, 2),
        (4, 0),
        (6, 2),
    ]


def test_between_cells_it_is_idle():
    cell = CurrentCell()
    activity = ActivityReader(cell, MainThread(threading.get_ident()), OWNERS)
    cell.started(4, "x")
    cell.finished("ValueError: empty batch")
    assert cell.error == "ValueError: empty batch"
    section = activity.look("a1b2")
    assert (section.state, section.cell, section.line) == ("idle", None, None)
    assert section.context_mesh == "a1b2"


def test_waiting_for_the_lock_of_the_interpreter_is_no_wait_for_a_thread():
    over = []

    def compute():
        while not over:
            pass

    worker = threading.Thread(target=compute)
    worker.start()
    watched = MainThread(worker.ident)
    found = [watched.waits_for_a_thread() for _ in range(100)]
    over.append(True)
    worker.join()
    assert not any(found)


def test_a_thread_that_has_run_is_not_blocked_also_where_it_is_in_the_same_call_again(monkeypatch):
    monkeypatch.setattr(main_thread_module.platform, "machine", lambda: "x86_64")
    ask, done, over = threading.Event(), threading.Event(), []

    def work():
        while not over:
            ask.wait()
            ask.clear()
            sum(range(10_000))
            done.set()

    class SystemCall:
        def read_text(self):
            done.clear()
            ask.set()
            done.wait()
            return f"{main_thread_module.FUTEX['x86_64']} 0x1 0x2"

    worker = threading.Thread(target=work)
    worker.start()
    watched = MainThread(worker.ident)
    watched._system_call = SystemCall()
    found = watched.waits_for_a_thread()
    over.append(True)
    ask.set()
    worker.join()
    assert found is False


def test_one_that_asks_for_the_lock_of_the_interpreter_again_and_again_is_not_blocked(monkeypatch):
    """Others may take the lock in turn for so long that each look finds it in the same call."""
    monkeypatch.setattr(main_thread_module.platform, "machine", lambda: "x86_64")
    watched, began = MainThread(threading.get_ident()), time.monotonic()
    watched._system_call = SimpleNamespace(read_text=lambda: "202 0x1 0x2")
    wakes = sys.getswitchinterval()
    monkeypatch.setattr(watched, "_processor_time", lambda: int((time.monotonic() - began) / wakes))
    assert not any(watched.waits_for_a_thread() for _ in range(20))
    monkeypatch.setattr(watched, "_processor_time", lambda: 0)
    assert watched.waits_for_a_thread() is True


def test_the_processor_time_of_one_thread_is_not_that_of_others():
    here = MainThread(threading.get_ident())
    here.busy_share()
    other = threading.Thread(target=lambda: sum(range(10_000_000)))
    other.start()
    other.join()
    waited = here.busy_share()
    sum(range(5_000_000))
    # How large a share a thread gets is a matter of what else runs on the machine.
    assert here.busy_share() > 2 * waited


def test_waiting_for_a_thread_is_not_taken_for_sleeping():
    release, awake = threading.Event(), []

    def work():
        while not awake:
            time.sleep(0.05)
        release.wait()

    worker = threading.Thread(target=work)
    worker.start()
    watched = MainThread(worker.ident)
    assert not any(watched.waits_for_a_thread() for _ in range(50))
    awake.append(True)
    end = time.monotonic() + 60
    while not watched.waits_for_a_thread():
        assert time.monotonic() < end
    assert watched.waits_in_threading()
    release.set()
    worker.join()
    # The system lists it a little longer than Python does.
    end = time.monotonic() + 10
    while watched.waits_for_a_thread() is not None:
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_lock_that_no_code_of_threading_takes_may_be_out_of_reach():
    lock = threading.Lock()
    lock.acquire()
    worker = threading.Thread(target=lambda: lock.acquire())
    worker.start()
    watched = MainThread(worker.ident)
    end = time.monotonic() + 60
    while not watched.waits_for_a_thread() or watched.waits_in_threading():
        assert time.monotonic() < end
    lock.release()
    worker.join()


def test_what_a_system_does_not_say_is_none(monkeypatch):
    monkeypatch.delattr(time, "pthread_getcpuclockid")
    monkeypatch.setattr(main_thread_module.platform, "machine", lambda: "riscv64")
    here = MainThread(threading.get_ident())
    assert here.busy_share() is None
    assert here.waits_for_a_thread() is None
    monkeypatch.setattr(main_thread_module.sys, "platform", "darwin")
    assert MainThread(threading.get_ident())._system_call is None


def test_the_edges_of_a_cell_are_reported_on_the_main_thread():
    cell, seen = CurrentCell(), []
    cell.at_edges(lambda: seen.append((threading.get_ident(), cell.running is not None)))
    cell.started(1, "x")
    cell.finished()
    assert seen == [(threading.get_ident(), True)] * 2
