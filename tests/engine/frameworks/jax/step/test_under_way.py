"""What counts as being computed: arrays of programs that all have sent, and which are there later."""

import os
import sys
import threading
import time
import weakref
from pathlib import Path

import pytest

from nbdist.engine.frameworks.jax.step.dispatched import Dispatched, arrays_under_way
from nbdist.engine.frameworks.jax.step.programs import NAMED, computed_seconds, wait_for_arrays


class Array:
    """Some output of a program."""

    def __init__(self, *, ready=False, deleted=False):
        self.ready, self.deleted = ready, deleted

    def is_deleted(self):
        return self.deleted

    def is_ready(self):
        assert not self.deleted, "ends a process"
        return self.ready


class Key:
    """A typed PRNG key, which does not say whether it is there."""

    def is_deleted(self):
        return False


def test_what_does_not_say_is_not_waited_for():
    dispatched = Dispatched()
    dispatched.restart(3)
    key = Key()
    dispatched.origins.computed([key], 3, 1)
    assert arrays_under_way(dispatched, 1) == []


def test_only_what_all_have_sent_and_is_to_come_counts():
    dispatched = Dispatched()
    dispatched.restart(3)
    first, second, ready, deleted, later = (
        Array(),
        Array(),
        Array(ready=True),
        Array(deleted=True),
        Array(),
    )
    dispatched.origins.computed([first], 3, 1)
    dispatched.origins.computed([second, ready, deleted], 3, 2)
    dispatched.origins.computed([later], 3, 3)
    made, earlier = Array(), Array()
    dispatched.origins.note(made, (3, 0, "made by nothing"))
    dispatched.origins.note(earlier, (2, 1, "0"))
    assert arrays_under_way(dispatched, 2) == [first, second]
    assert arrays_under_way(dispatched, 2, since=1) == [second]
    assert arrays_under_way(dispatched, 0) == []
    first.ready = True
    assert arrays_under_way(dispatched, 3) == [second, later]


def test_arrays_are_waited_for_and_not_kept_alive():
    class Waits(Array):
        def block_until_ready(self):
            waited.append(self)
            begun.set()
            assert release.wait(10)
            raise RuntimeError("what its program has raised")

    waited, begun, release, over = [], threading.Event(), threading.Event(), threading.Event()
    first, dropped, deleted, last = Waits(), Waits(), Waits(deleted=True), Waits()
    reference = weakref.ref(dropped)
    wait_for_arrays([first, dropped, deleted, last], over.set)
    assert begun.wait(10)
    del dropped
    assert reference() is None
    assert not over.is_set()
    release.set()
    assert over.wait(10)
    assert waited == [first, last]


@pytest.mark.skipif(sys.platform != "linux", reason="Only Linux has the names of threads there.")
def test_processor_time_is_that_of_xlas_threads():
    def compute(name):
        if name:
            Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_text(name)
        until = time.thread_time() + 0.2
        while time.thread_time() < until:
            os.getpid()
        # As long as the thread is there.
        found.append(computed_seconds())

    def after(name):
        thread = threading.Thread(target=compute, args=[name])
        thread.start()
        thread.join()
        return found.pop()

    found = []
    before = computed_seconds()
    assert after(None) < before + 0.1
    assert after(f"{NAMED}Eigen") > before + 0.15
