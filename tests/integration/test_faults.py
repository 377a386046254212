"""One process fails, hangs, diverges or dies: what is said, how soon, and what is left."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nbdist.session.cells.outcome import WAIT_SECONDS
from tests.builders.cells import until
from tests.integration.conftest import START
from tests.integration.notebook import Notebook
from tests.variants import cases
from tests.waiting import wait_for

COLLECTIVE = """
import jax, numpy as np, time
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((jax.device_count(),), ('d',), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.make_array_from_callback((24,), NamedSharding(mesh, P('d')), lambda i: np.ones(24)[i])
total = jax.jit(lambda x: x.sum())
me = jax.process_index()
kept = 42
float(total(x))
"""

SOONER = """
from nbdist.session.cells import outcome
outcome.WAIT_SECONDS = {wait}
"""


TOTALS = "%%dist\nme = jax.process_index()\nprint(kept, float(total(x)))"
RIGHT = "processes 0, 1   42 24.0"
SLEEPS = "%%dist\nprint('in it', flush=True)\ntime.sleep(60)"


def begin(kernel: Notebook, options: str) -> None:
    """A session in step, whose processes have one collective behind them."""
    kernel.good(f"{START} {options}")
    kernel.good(f"%%dist\n{COLLECTIVE}")


@pytest.fixture
def notebook(kernel: Notebook) -> Notebook:
    """A session that all tests share which leave the right sum in it; after another it is begun anew."""
    shown = kernel.run(TOTALS)
    if shown.error is not None or RIGHT not in shown.text:
        kernel.run("%dist_shutdown")
        begin(kernel, "--give-up 3")
    return kernel


@pytest.fixture
def own(kernel: Notebook) -> Iterator[Notebook]:
    """A kernel without a session, for one that no other test has."""
    kernel.run("%dist_shutdown")
    yield kernel
    kernel.run("%dist_shutdown")


@pytest.fixture
def sooner(kernel: Notebook) -> Iterator[None]:
    """For a test: after 3 s a wait is named, not after 10."""
    kernel.good(SOONER.format(wait=3.0))
    yield
    kernel.good(SOONER.format(wait=WAIT_SECONDS))


def engine_pid(notebook: Notebook, process_id: int) -> int:
    pid = f"nbdist.current().snapshot().processes[{process_id}].pid"
    return int(notebook.good(f"import nbdist\nprint({pid})").text)


def test_one_raises_the_other_waits_and_the_cell_ends_with_the_cause(notebook: Notebook) -> None:
    request, said = notebook.follow(
        "%%dist --grace 4\nif me == 1:\n    raise ValueError('empty batch')\nfloat(total(x))",
        "process 0 .* at line 4: .* - will be interrupted",
    )
    assert re.search(r"process 1 +ValueError: empty batch", said.text)
    assert "line 3   raise ValueError('empty batch')" in said.text
    output = notebook.collect(request, output=said)
    output.names("ValueError: empty batch", "Cell In[", "process 0   interrupted while waiting")
    assert "out of step" not in output.traceback
    # The processes have been brought in step: variables are there, collectives bring the right number.
    assert "was repaired in" in output.traceback
    assert "out of step" not in notebook.shows(TOTALS, RIGHT)


DEAF = """%%dist --grace 1
import ctypes, pathlib, threading
libc, lock, held = ctypes.CDLL(None), ctypes.create_string_buffer(64), threading.Event()
def hold():
    libc.pthread_mutex_lock(lock)
    held.set()
    while not pathlib.Path({over!r}).exists(): time.sleep(0.05)
    libc.pthread_mutex_unlock(lock)
def trace(x):
    # No signal ends it; Python traces this function, so that the process compiles.
    libc.pthread_mutex_lock(lock)
    return x
if me == 1: raise ValueError('early')
libc.pthread_mutex_init(lock, None)
threading.Thread(target=hold, daemon=True).start()
held.wait()
jax.jit(trace)(1.0)
"""


def test_after_a_cell_that_was_left_while_it_compiled_the_next_waits_and_runs(
    notebook: Notebook, tmp_path: Path
) -> None:
    over = tmp_path / "over"
    failed = notebook.bad(DEAF.format(over=str(over)))
    assert "stuck: still running" in failed.text
    assert "process 0   compiling at line 11" in failed.text
    notebook.shows("%%dist\nprint(kept)", "42")
    request, _ = notebook.follow(TOTALS, "process 0 still compiling what was interrupted")
    over.touch()
    assert RIGHT in notebook.collect(request).text


def test_a_process_is_freed_that_waits_for_others_to_meet_it_for_the_first_time(
    own: Notebook,
) -> None:
    """In C++, where no signal is seen, and before any connection is there that could be cut."""
    own.good(START)
    own.good(f"%%dist\n{COLLECTIVE.rpartition('float')[0]}")
    failed = own.fails(
        "%%dist --grace 1\nif me == 1: raise ValueError('early')\nfloat(total(x))",
        "ValueError: early",
    )
    assert "stuck" not in failed.text + failed.traceback
    assert "was repaired in" in failed.traceback
    assert "gloo" not in failed.text + failed.traceback
    own.shows(TOTALS, RIGHT)


@pytest.mark.usefixtures("sooner")
def test_a_process_is_freed_from_a_barrier_that_another_does_not_reach(notebook: Notebook) -> None:
    failed = notebook.fails(
        "%%dist --grace 1\nfrom jax.experimental import multihost_utils\n"
        "if me == 1: raise ValueError('early')\nmultihost_utils.sync_global_devices('here')",
        "ValueError: early",
    )
    # On a busy machine the grace period can end before it is seen to wait.
    assert re.search("process 0   interrupted (while waiting|at line)", failed.told)
    assert "stuck" not in failed.text + failed.traceback


def test_a_session_that_is_not_to_be_repaired_refuses_what_computes_until_it_is_asked(
    own: Notebook,
) -> None:
    begin(own, "--no-recover")
    own.bad("%%dist --grace 1\nif me == 1:\n    raise ValueError\nfloat(total(x))")
    own.fails("%%dist\nfloat(total(x))", "in step since cell")
    own.shows("%%dist\nprint(kept)", "42")
    own.shows("%dist_recover", "was repaired in")
    own.shows(TOTALS, RIGHT)
    # One that dies is not replaced either.
    psutil.Process(engine_pid(own, 1)).kill()
    wait_for(lambda: "lost" in own.good("%dist_status").text)
    own.shows("%%dist\nkept", "without process 1", "process 0   42")
    own.fails("%%dist --on 1\n1", "is gone")
    own.shows("%dist_recover", "Process 1 was replaced")
    own.shows("%%dist\nkept", "processes 0, 1   42")
    own.shows("%dist_init --restart", "ready in")
    own.fails("%%dist\nkept", "NameError")


@pytest.mark.parametrize("targets", cases("", " --on 0"), ids=["finished", "not in it"])
def test_one_that_waits_for_what_another_will_not_send_is_named_with_its_line_and_freed(
    notebook: Notebook, targets: str
) -> None:
    said = notebook.fails(
        f"%%dist --grace 1{targets}\nif me == 0:\n    float(total(x))",
        "CollectiveError: float(total(x)) needs all 2 processes",
        "Run it without --on." if targets else "process 1 left the cell",
    )
    assert "was repaired in" in said.traceback
    notebook.shows(TOTALS, RIGHT)


@pytest.mark.usefixtures("sooner")
def test_processes_at_different_lines_are_named_with_both(notebook: Notebook) -> None:
    request, _ = notebook.follow(
        "%%dist\nif me == 0:\n    float(total(x))\nelse:\n    time.sleep(60)",
        r"process 0 .* at line 3(.|\n)*process 1 .* at line 5",
    )
    notebook.stopped(request)


@pytest.mark.usefixtures("sooner")
def test_of_processes_that_were_at_different_lines_nothing_is_left(notebook: Notebook) -> None:
    request, shown = notebook.follow(
        "%%dist\nprint('in it')\nif me == 0:\n    time.sleep(9)", "has been at line"
    )
    assert re.search("process 0 .* at line 4", shown.text)
    output = notebook.collect(request)
    assert output.error is None
    assert output.text == "processes 0, 1   in it"


def test_where_all_wait_that_is_said_with_the_error_that_nobody_has_seen(
    notebook: Notebook,
) -> None:
    request, _ = notebook.follow(
        "%%dist --grace 1\nfrom jax.experimental import multihost_utils\ntry:\n"
        "    if me == 1: raise ValueError('hidden')\n    float(total(x))\n"
        "finally:\n    multihost_utils.sync_global_devices('end')",
        "process 1   waits after it has raised ValueError: hidden",
    )
    said = notebook.stopped(request).traceback
    assert "All processes wait" in said
    notebook.shows(TOTALS, RIGHT)


def test_interrupting_the_kernel_interrupts_the_processes(notebook: Notebook) -> None:
    request, _ = notebook.follow(SLEEPS, "in it")
    assert notebook.stopped(request).seconds < 30
    notebook.shows(TOTALS, RIGHT)


UNLUCKY = """
import os, signal, threading
def unlucky(nth):
    enter, main, left = threading.Condition.__enter__, threading.main_thread(), nth
    def entered(condition):
        nonlocal left
        found = enter(condition)
        if left and threading.current_thread() is main:
            left -= 1
            if not left:
                threading.Condition.__enter__ = enter
                os.kill(os.getpid(), signal.SIGINT)
        return found
    threading.Condition.__enter__ = entered
"""
"""Interrupts the kernel as it takes the nth lock of an event, which an interrupt can leave taken."""


@pytest.mark.parametrize("nth", range(1, 6))
def test_an_interrupt_at_the_worst_moment_leaves_nothing_locked(
    notebook: Notebook, nth: int
) -> None:
    notebook.good(f"{UNLUCKY}threading.Timer(0.5, unlucky, ({nth},)).start()")
    notebook.fails(SLEEPS, "KeyboardInterrupt: Processes 0, 1 were interrupted")
    notebook.shows(TOTALS, RIGHT)


@pytest.mark.usefixtures("sooner")
def test_a_process_that_ignores_interrupts_is_reported_and_the_cell_ends(
    notebook: Notebook,
) -> None:
    output = notebook.fails(
        "%%dist --grace 1\nimport signal\nif me == 1:\n    raise ValueError('first')\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(40)",
        "stuck",
        "ValueError: first",
        timeout_s=40,
    )
    assert output.seconds < 20
    notebook.fails("%%dist --on 0\n1", "process 0", "is stuck")
    notebook.shows("%%dist\nkept", "without process 0")


@pytest.mark.parametrize("number", cases(signal.SIGKILL, signal.SIGSEGV))
def test_a_killed_engine_is_named_with_its_signal(notebook: Notebook, number: int) -> None:
    """The cell ends though the other sleeps."""
    pid = engine_pid(notebook, 1)
    words = SLEEPS.replace("print", "import os; os.write(2, b'last words\\n'); print", 1)
    request, _ = notebook.follow(words, "in it")
    psutil.Process(pid).send_signal(number)
    output = notebook.collect(request)
    assert output.seconds < 25
    output.names(
        f"killed by signal {int(number)} ({signal.Signals(number).name})",
        "Process 1 was killed",
        "last words",
        "Process 1 was replaced",
    )
    notebook.shows("%%dist\nkept", "processes 0, 1   42")
    assert "lost" not in notebook.good("%dist_status").text


@pytest.mark.parametrize(
    ("ends", "values"),
    [
        ("os.write(2, b'fatal: no luck\\n'); os.abort()", ("SIGABRT", "fatal: no luck")),
        ("os._exit(0)", ("ProcessError: Process 1 ended with exit code 0",)),
    ],
)
def test_what_ends_one_process_is_a_death_as_any_other(
    notebook: Notebook, ends: str, values: tuple[str, ...]
) -> None:
    ended = notebook.fails(f"%%dist\nimport os\nif me == 1: {ends}\nfloat(total(x))", *values)
    assert ended.seconds < 30
    assert "Process 1 was replaced" in ended.traceback


def test_arrays_of_other_shapes_in_xla_end_one_process_or_the_other(notebook: Notebook) -> None:
    # On a busy machine nothing may have been reported of it before the end.
    notebook.good("%%dist\nme = jax.process_index()")
    gather = (
        "%%dist\nfrom jax.experimental import multihost_utils\n"
        "found = multihost_utils.process_allgather(np.ones({}, np.float32)); print('all have', found.size)"
    )
    notebook.good(gather.format("2"))
    # One process knows its shape, and compares no more; the other is told nothing, and XLA ends it, or this one.
    mixed = notebook.fails(gather.format("2 + me"), "killed by signal 6", "collective mismatch")
    assert "all have" not in mixed.text
    notebook.shows(gather.format("2"), "processes 0, 1   all have 4")


def test_when_a_cell_ends_all_processes_that_is_said_with_what_there_is_to_do(
    notebook: Notebook,
) -> None:
    notebook.fails("%%dist\nimport sys\nsys.exit(0)", "Processes 0, 1 raised SystemExit")
    notebook.shows("%%dist\nkept", "processes 0, 1   42")
    ended = notebook.bad("%%dist\nimport os\nos._exit(0)")
    ended.names("ProcessError: Processes 0, 1 ended with exit code 0")
    for said in (ended, notebook.bad("%%dist\nkept"), notebook.bad("%dist_recover")):
        said.names("%dist_init --restart")
        assert "%dist_recover" not in said.traceback
    notebook.shows("%dist_status", "All processes have ended")
    notebook.shows("%dist_init --restart", "ready in")


@pytest.mark.usefixtures("sooner")
def test_compiling_is_not_called_stuck(notebook: Notebook) -> None:
    # A compilation that takes longer than a wait may on one process while the other has finished.
    notebook.good(
        "%%dist\nimport jax._src.compiler as c\nreal = c.backend_compile_and_load\n"
        "def slow(*args, **kwargs):\n    time.sleep(6 if me == 0 else 0)\n    return real(*args, **kwargs)\n"
        "c.backend_compile_and_load = slow"
    )
    output = notebook.good("%%dist\njax.jit(lambda x: x * 3 + 1)(np.ones(3)).block_until_ready();")
    notebook.good("%%dist\nc.backend_compile_and_load = real")
    assert output.seconds > 5
    assert "finished the cell" not in output.text


def test_the_status_of_a_busy_process_says_line_and_cell(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.good(f"%%dist --no-wait\n{until(tmp_path / 'over')}")
    wait_for(lambda: re.search(r"running.*os.path.exists", notebook.good("%dist_status").text))
    (tmp_path / "over").touch()
    notebook.good("%sync")


def test_a_second_kernel_hears_a_busy_session(notebook: Notebook, tmp_path: Path) -> None:
    folder = notebook.good(
        "import nbdist\nprint(nbdist.current()._life.engines.cluster.folder)"
    ).text.strip()
    notebook.good(f"%%dist --no-wait\n{until(tmp_path / 'over')}")
    listen = (
        "import json, time, zmq\n"
        f"info = json.load(open('{folder}/security/ipcontroller-nbdist-client.json'))\n"
        "from nbdist.monitor.states import ExpectedProcess as Planned\n"
        "from nbdist.monitor.monitor import Monitor\n"
        "planned = tuple(Planned(process_id=i, host='h', role='worker') for i in range(2))\n"
        "other = Monitor(session='other', planned=planned, connection=info, publish=lambda s: None)\n"
        "other.start()\n"
        "def seen():\n"
        "    found = other.snapshot()\n"
        "    return [p.state for p in found.processes], len(found.devices), len(found.arrays) > 0\n"
        "deadline = time.monotonic() + 20\n"
        "while seen() != (['running'] * 2, 4, True) and time.monotonic() < deadline:\n"
        "    time.sleep(0.05)\n"
        "print(*seen())\nother.stop()\n"
    )
    with Notebook(folder=tmp_path) as second:
        second.shows(listen, "['running', 'running'] 4 True")
    (tmp_path / "over").touch()
    notebook.good("%sync")
