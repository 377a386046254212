"""One process fails, hangs, diverges or dies: what is said, how soon, and what is left."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nbdist.session.cells.outcome import WAIT_SECONDS
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


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("faults")) as found:
        found.good("%load_ext nbdist")
        yield found


@pytest.fixture
def sooner(kernel: Notebook) -> Iterator[None]:
    """For a test: after 3 s a wait is named, not after 10."""
    kernel.good(SOONER.format(wait=3.0))
    yield
    kernel.good(SOONER.format(wait=WAIT_SECONDS))


@pytest.fixture
def notebook(kernel: Notebook) -> Iterator[Notebook]:
    """A session in step, whose processes have one collective behind them."""
    kernel.good(f"{START} --give-up 3")
    kernel.good(f"%%dist\n{COLLECTIVE}")
    yield kernel
    kernel.run("%dist_shutdown")


def engine_pid(notebook: Notebook, process_id: int) -> int:
    text = notebook.good(
        "import nbdist\nprint([(p.process_id, p.pid) for p in "
        "nbdist.current().snapshot().processes])"
    ).text
    return int(re.search(rf"\({process_id}, (\d+)\)", text).group(1))  # type: ignore[union-attr]


def test_one_raises_the_other_waits_and_the_cell_ends_with_the_cause(notebook: Notebook) -> None:
    request = notebook.send(
        "%%dist --grace 4\nif me == 1:\n    raise ValueError('empty batch')\nfloat(total(x))"
    )
    said = notebook.collect(request, until="process 0 .* at line 4: .* - will be interrupted")
    assert re.search(r"process 1 +ValueError: empty batch", said.text)
    assert "ValueError: empty batch" in said.text
    assert "line 3   raise ValueError('empty batch')" in said.text
    output = notebook.collect(request, output=said)
    assert "ValueError: empty batch" in output.traceback
    assert "Cell In[" in output.traceback
    assert "process 0   interrupted while waiting" in output.traceback
    assert "out of step" not in output.traceback
    # The processes have been brought in step: variables are there, and collectives bring the right number.
    assert "in step again after" in output.text
    later = notebook.good("%%dist\nprint(kept, float(total(x)))")
    assert "out of step" not in later.text
    assert "processes 0, 1   42 24.0" in later.text


DEAF = """%%dist --grace 1
import hashlib
def trace(x):
    began = time.monotonic()
    hashlib.pbkdf2_hmac('sha256', b'', b'', 100_000)
    # No signal arrives in it; Python traces this function, so that the process compiles.
    hashlib.pbkdf2_hmac('sha256', b'', b'', int(1_500_000 / (time.monotonic() - began)))
    return x
if me == 1: raise ValueError('early')
jax.jit(trace)(1.0)
"""


def test_after_a_cell_that_was_left_while_it_compiled_the_next_waits_and_runs(
    notebook: Notebook,
) -> None:
    failed = notebook.bad(DEAF)
    assert "stuck: still running" in failed.text
    assert "process 0   compiling at line 7" in failed.text
    assert "42" in notebook.good("%%dist\nprint(kept)").text
    later = notebook.good("%%dist\nprint(kept, float(total(x)))")
    assert "process 0 still compiling what was interrupted" in later.text
    assert "processes 0, 1   42 24.0" in later.text


def test_a_process_is_freed_that_waits_for_others_to_meet_it_for_the_first_time(
    kernel: Notebook,
) -> None:
    """In C++, where no signal is seen, and before any connection is there that could be cut."""
    kernel.good(START)
    try:
        kernel.good(
            "%%dist\nimport jax, numpy as np\nfrom jax.sharding import NamedSharding, PartitionSpec as P\n"
            "mesh = jax.make_mesh((2, 2), ('data', 'model'))\n"
            "spread = NamedSharding(mesh, P('data', 'model'))\n"
            "x = jax.make_array_from_callback((4, 4), spread, lambda i: np.ones((4, 4))[i])\n"
            "total = jax.jit(lambda x: x.sum(0))"
        )
        failed = kernel.bad(
            "%%dist --grace 1\nif jax.process_index() == 1: raise ValueError('early')\n"
            "np.asarray(total(x).addressable_shards[0].data)"
        )
        assert "ValueError: early" in failed.traceback
        assert "stuck" not in failed.text + failed.traceback
        assert "in step again after" in failed.text
        assert "gloo" not in failed.text
        assert "16.0" in kernel.good("%%dist\nprint(float(total(x).sum()))").text
    finally:
        kernel.run("%dist_shutdown")


@pytest.mark.usefixtures("sooner")
def test_a_process_is_freed_from_a_barrier_that_another_does_not_reach(notebook: Notebook) -> None:
    failed = notebook.bad(
        "%%dist --grace 1\nfrom jax.experimental import multihost_utils\n"
        "if me == 1: raise ValueError('early')\nmultihost_utils.sync_global_devices('here')"
    )
    assert "ValueError: early" in failed.traceback
    # On a busy machine the grace period can end before it is seen to wait.
    assert re.search("process 0   interrupted (while waiting|at line)", failed.traceback)
    assert "stuck" not in failed.text + failed.traceback


def test_a_session_that_is_not_to_be_repaired_refuses_what_computes_until_it_is_asked(
    kernel: Notebook,
) -> None:
    kernel.good(f"{START} --no-recover")
    try:
        kernel.good(f"%%dist\n{COLLECTIVE}")
        kernel.bad("%%dist --grace 1\nif me == 1:\n    raise ValueError\nfloat(total(x))")
        assert "in step since cell" in kernel.bad("%%dist\nfloat(total(x))").traceback
        assert "42" in kernel.good("%%dist\nprint(kept)").text
        assert "in step again after" in kernel.good("%dist_recover").text
        assert "42 24.0" in kernel.good("%%dist\nprint(kept, float(total(x)))").text
        assert "ready in" in kernel.good("%dist_init --restart").text
        assert "NameError" in kernel.bad("%%dist\nkept").traceback
    finally:
        kernel.run("%dist_shutdown")


@pytest.mark.parametrize("targets", cases("", " --on 0"), ids=["finished", "not in it"])
def test_one_that_waits_for_what_another_will_not_send_is_named_with_its_line_and_freed(
    notebook: Notebook, targets: str
) -> None:
    said = notebook.bad(f"%%dist --grace 1{targets}\nif me == 0:\n    float(total(x))")
    assert "CollectiveError: float(total(x)) needs all 2 processes but" in said.traceback
    assert ("Run it without --on." if targets else "process 1 left the cell") in said.traceback
    assert "in step again after" in said.text
    assert "24.0" in notebook.good("%%dist\nprint(float(total(x)))").text


@pytest.mark.usefixtures("sooner")
def test_processes_at_different_lines_are_named_with_both(notebook: Notebook) -> None:
    request = notebook.send("%%dist\nif me == 0:\n    float(total(x))\nelse:\n    time.sleep(60)")
    said = notebook.collect(request, until=r"process \d has been at line", timeout_s=40)
    assert re.search(r"process 0 .* at line 3", said.text)
    assert re.search(r"process 1 .* at line 5", said.text)
    notebook.interrupt()
    assert notebook.collect(request).error is not None


@pytest.mark.usefixtures("sooner")
def test_of_processes_that_were_at_different_lines_nothing_is_left(notebook: Notebook) -> None:
    request = notebook.send("%%dist\nprint('in it')\nif me == 0:\n    time.sleep(9)")
    assert "process 0 has been at line 4" in notebook.collect(request, until="has been at").text
    output = notebook.collect(request)
    assert output.error is None
    assert output.text == "processes 0, 1   in it"


def test_where_all_wait_that_is_said_with_the_error_that_nobody_has_seen(
    notebook: Notebook,
) -> None:
    hidden = (
        "%%dist --grace 1\nfrom jax.experimental import multihost_utils\ntry:\n"
        "    if me == 1: raise ValueError('hidden')\n    float(total(x))\n"
        "finally:\n    multihost_utils.sync_global_devices('end')"
    )
    request = notebook.send(hidden)
    notebook.collect(request, until="process 1   waits after it has raised ValueError: hidden")
    notebook.interrupt()
    said = notebook.collect(request)
    assert said.error is not None
    assert "all processes wait, and nothing is computed or sent" in said.text
    assert "24.0" in notebook.good("%%dist\nprint(float(total(x)))").text


def test_interrupting_the_kernel_interrupts_the_processes(notebook: Notebook) -> None:
    request = notebook.send("%%dist\nprint('in it', flush=True)\ntime.sleep(60)")
    notebook.collect(request, until="in it")
    notebook.interrupt()
    output = notebook.collect(request)
    assert output.error is not None
    assert output.seconds < 30
    assert "processes 0, 1   42 24.0" in notebook.good("%%dist\nprint(kept, float(total(x)))").text


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


def test_an_interrupt_at_the_worst_moment_leaves_nothing_locked(notebook: Notebook) -> None:
    notebook.good(UNLUCKY)
    for nth in range(1, 6):
        notebook.good(f"threading.Timer(0.5, unlucky, ({nth},)).start()")
        output = notebook.bad("%%dist\nprint('in it', flush=True)\ntime.sleep(60)")
        assert "KeyboardInterrupt: processes 0, 1 interrupted" in output.traceback
        assert (
            "processes 0, 1   42 24.0" in notebook.good("%%dist\nprint(kept, float(total(x)))").text
        )


@pytest.mark.usefixtures("sooner")
def test_a_process_that_ignores_interrupts_is_reported_and_the_cell_ends(
    notebook: Notebook,
) -> None:
    output = notebook.bad(
        "%%dist --grace 1\nimport signal\nif me == 1:\n    raise ValueError('first')\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\ntime.sleep(40)",
        timeout_s=40,
    )
    assert output.seconds < 20
    assert "stuck" in output.traceback
    assert "ValueError: first" in output.traceback
    refused = notebook.bad("%%dist --on 0\n1").traceback
    assert "process 0" in refused
    assert "is stuck" in refused
    assert "without process 0" in notebook.good("%%dist\nkept").text


@pytest.mark.parametrize("number", cases(signal.SIGKILL, signal.SIGSEGV))
def test_a_killed_engine_is_named_with_its_signal(notebook: Notebook, number: int) -> None:
    pid = engine_pid(notebook, 1)
    request = notebook.send(
        "%%dist\nimport os\nos.write(2, b'last words\\n')\nprint('in it', flush=True)\ntime.sleep(50)"
    )
    notebook.collect(request, until="in it")
    psutil.Process(pid).send_signal(number)
    output = notebook.collect(request)
    assert f"killed by signal {int(number)} ({signal.Signals(number).name})" in output.traceback
    assert "process 1   killed" in output.traceback
    assert "last words" in output.traceback
    assert "process 1 started again" in output.text
    assert "processes 0, 1   42" in notebook.good("%%dist\nkept").text
    assert "lost" not in notebook.good("%dist_status").text


def test_what_ends_one_process_with_exit_code_0_or_in_xla_is_a_death_as_any_other(
    notebook: Notebook,
) -> None:
    ended = notebook.bad("%%dist\nimport os\nif me == 1: os._exit(0)\nfloat(total(x))")
    assert "ProcessError: process 1 ended with exit code 0" in ended.traceback
    assert "process 1 started again" in ended.text
    # On a busy machine nothing may have been reported of it before the end.
    notebook.good("%%dist\nme = jax.process_index()")
    gather = (
        "%%dist\nfrom jax.experimental import multihost_utils\n"
        "found = multihost_utils.process_allgather(np.ones({}, np.float32)); print('all have', found.size)"
    )
    notebook.good(gather.format("2"))
    # One process knows its shape, and compares no more; the other is told nothing, and XLA ends it, or this one.
    mixed = notebook.bad(gather.format("2 + me"))
    assert re.search(r"ProcessError: process \d killed by signal 6", mixed.traceback)
    assert "collective mismatch" in mixed.traceback
    assert "all have" not in mixed.text
    assert "processes 0, 1   all have 4" in notebook.good(gather.format("2")).text


def test_when_a_cell_ends_all_processes_that_is_said_with_what_there_is_to_do(
    notebook: Notebook,
) -> None:
    everywhere = notebook.bad("%%dist\nimport sys\nsys.exit(0)")
    assert "ProcessError: processes 0, 1 raised SystemExit" in everywhere.traceback
    assert "processes 0, 1   42" in notebook.good("%%dist\nkept").text
    ended = notebook.bad("%%dist\nimport os\nos._exit(0)")
    assert "ProcessError: processes 0, 1 ended with exit code 0" in ended.traceback
    for said in (ended, notebook.bad("%%dist\nkept"), notebook.bad("%dist_recover")):
        assert "%dist_init --restart starts afresh" in said.traceback
        assert "%dist_recover" not in said.traceback
    assert "All processes have ended" in notebook.good("%dist_status").text
    assert "ready in" in notebook.good("%dist_init --restart").text


def test_where_nothing_is_to_be_repaired_the_others_go_on_without_a_killed_engine(
    fresh: Notebook,
) -> None:
    fresh.good("%load_ext nbdist\n%dist_init -n 2 --platform cpu --no-recover")
    fresh.good("%%dist\nkept = 42")
    psutil.Process(engine_pid(fresh, 1)).kill()
    wait_for(lambda: "lost" in fresh.good("%dist_status").text)
    alone = fresh.good("%%dist\nkept")
    assert "without process 1" in alone.text
    assert "process 0   42" in alone.text
    assert "is gone" in fresh.bad("%%dist --on 1\n1").traceback
    assert "process 1 started again" in fresh.good("%dist_recover").text
    assert "processes 0, 1   42" in fresh.good("%%dist\nkept").text


def test_a_death_in_a_cell_ends_it_though_the_others_sleep(notebook: Notebook) -> None:
    pid = engine_pid(notebook, 1)
    request = notebook.send("%%dist\nprint('in it', flush=True)\ntime.sleep(50)")
    before = notebook.collect(request, until="in it").seconds
    psutil.Process(pid).kill()
    after = notebook.collect(request)
    assert after.seconds < 25, f"{after.seconds:.1f} s after {before:.1f} s"
    assert "SIGKILL" in after.traceback


def test_an_engine_that_aborts_shows_its_last_words(notebook: Notebook) -> None:
    output = notebook.bad("%%dist --on 1\nimport os\nos.write(2, b'fatal: no luck\\n')\nos.abort()")
    assert "SIGABRT" in output.traceback
    assert "fatal: no luck" in output.traceback
    assert output.seconds < 30


@pytest.mark.usefixtures("sooner")
def test_compiling_is_not_called_stuck(notebook: Notebook) -> None:
    # A compilation that takes longer than a wait may on one process while the other has finished.
    notebook.good(
        "%%dist\nimport jax._src.compiler as c\nreal = c.backend_compile_and_load\n"
        "def slow(*args, **kwargs):\n    time.sleep(6 if me == 0 else 0)\n    return real(*args, **kwargs)\n"
        "c.backend_compile_and_load = slow"
    )
    output = notebook.good("%%dist\njax.jit(lambda x: x * 3 + 1)(np.ones(3)).block_until_ready();")
    assert output.seconds > 5
    assert "finished the cell" not in output.text


def busy_until(over: Path) -> str:
    """A cell that sleeps again and again until the test makes the file."""
    return f"%%dist --no-wait\nimport os\nwhile not os.path.exists({str(over)!r}):\n    time.sleep(0.1)"


def test_the_status_of_a_busy_process_says_line_and_cell(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.good(busy_until(tmp_path / "over"))
    deadline = time.monotonic() + 20
    while "time.sleep(0.1)" not in (text := notebook.good("%dist_status").text):
        assert time.monotonic() < deadline, text
    assert "running" in text
    (tmp_path / "over").touch()
    notebook.good("%sync")


def test_a_second_kernel_hears_a_busy_session(notebook: Notebook, tmp_path: Path) -> None:
    folder = notebook.good(
        "import nbdist\nprint(nbdist.current()._life.engines.link.folder)"
    ).text.strip()
    notebook.good(busy_until(tmp_path / "over"))
    listen = (
        "import json, time, zmq\n"
        f"info = json.load(open('{folder}/security/ipcontroller-nbdist-client.json'))\n"
        "from nbdist.monitor import ExpectedProcess as Planned\nfrom nbdist.monitor.monitor import Monitor\n"
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
        assert "['running', 'running'] 4 True" in second.good(listen).text
    (tmp_path / "over").touch()
    notebook.good("%sync")
