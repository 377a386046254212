"""Which threads of XLA's wait in a collective, told by their names and by the limits of their waits."""

import platform
import sys
import threading
from pathlib import Path

import pytest

from nbdist.engine.cell.stacks import FUTEX
from nbdist.engine.frameworks.jax.step import programs
from nbdist.engine.frameworks.jax.step.programs import waiting_threads

pytestmark = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in FUTEX,
    reason="Only Linux says in which system call a thread waits, which is known by its number.",
)


@pytest.fixture
def thread():
    """Starts a thread of a name as XLA's have it, which waits with or without a limit."""
    free, started = threading.Event(), []

    def start(name, *, limit_s):
        def run():
            task = Path(f"/proc/self/task/{threading.get_native_id()}")
            (task / "comm").write_text(name)
            free.wait(limit_s)

        started.append(threading.Thread(target=run))
        started[-1].start()
        return started[-1].native_id

    yield start
    free.set()
    for one in started:
        one.join()


def found_soon(number):
    for _ in range(500):
        if number in waiting_threads():
            return True
        threading.Event().wait(0.01)
    return False


def test_a_thread_of_xlas_that_waits_with_a_limit_is_in_a_collective(thread):
    assert found_soon(thread("tf_XLAEigen", limit_s=60))


def test_one_without_work_waits_without_a_limit_and_others_have_other_names(thread):
    idle = thread("tf_XLAExecute", limit_s=None)
    others = [thread(name, limit_s=60) for name in ("python", "tf_data", "grpc")]
    assert found_soon(thread("tf_XLAEigen", limit_s=60))  # by now all wait
    assert waiting_threads().isdisjoint([idle, *others])


def test_where_the_system_does_not_say_there_is_none(thread, monkeypatch, tmp_path):
    assert found_soon(thread("tf_XLAEigen", limit_s=60))
    monkeypatch.setattr(programs, "TASKS_FOLDER", tmp_path / "nothing")
    assert waiting_threads() == set()
