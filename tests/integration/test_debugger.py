"""`breakpoint()` and `%debug` on a process, as a person at the notebook meets them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import psutil
import pytest

from tests.integration.notebook import Notebook, Output

START = "%dist_init -n 2 --devices-per-process 2 --platform cpu"
MAKE = """%%dist
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
me = jax.process_index()
mesh = jax.make_mesh((4,), ("x",))
w = jax.make_array_from_callback((8,), NamedSharding(mesh, P("x")), lambda i: np.ones(8, "float32")[i])
"""
STOPS = """%%dist{options}
y = me + 41
if me == 1:
    breakpoint()
total = float(w.sum())
print('total', total)
"""
BOTH = """%%dist
import pdb
pdb.set_trace()
z = me
"""
FAILS = """%%dist
def divide(a, b):
    return a / b
if me == 1:
    divide(41, 0)
print(float(w.sum()))
"""
SUM = "processes 0, 1   8.0"


@pytest.fixture(scope="module")
def notebook(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Notebook]:
    with Notebook(folder=tmp_path_factory.mktemp("debugger")) as found:
        found.good("%load_ext nbdist")
        found.good(START)
        found.good(MAKE)
        yield found
        found.run("%dist_shutdown")


def answered(notebook: Notebook, code: str, *lines: tuple[str, str]) -> Output:
    """A cell with a person who types each line at its prompt."""
    request = notebook.send(code, person=True)
    for prompt, line in lines:
        assert notebook.asked(request, timeout_s=20) == prompt
        notebook.types(line)
    return notebook.collect(request)


def test_one_process_is_looked_at_while_the_other_waits_for_it(notebook: Notebook) -> None:
    output = answered(
        notebook,
        STOPS.format(options=" --grace 0.5"),
        ("process 1 ipdb> ", "p y * 100"),
        ("process 1 ipdb> ", "y = 7"),
        ("process 1 ipdb> ", "c"),
    )
    assert output.error is None, output.traceback
    assert "process 1   at a breakpoint in line 4, breakpoint(); the others wait" in output.text
    assert re.search(r"^> cell \d+\(4\)<module>\(\)$", output.text, re.MULTILINE), output.text
    assert "ipdb> p y * 100\n4200\n" in output.text
    assert "processes 0, 1   total 8.0" in output.text
    assert "in step again" not in output.text
    assert "process 1   7" in notebook.good("%dist --on 1 y").text


def test_leaving_the_debugger_fails_the_cell_and_frees_the_other(notebook: Notebook) -> None:
    output = answered(notebook, STOPS.format(options=" --grace 0.5"), ("process 1 ipdb> ", "q"))
    assert output.error is not None
    assert "ProcessError: process 1 raised BdbQuit" in output.traceback
    assert "process 0   interrupted while waiting" in output.traceback
    assert SUM in notebook.good("%dist float(w.sum())").text


def test_all_that_stop_are_asked_the_lowest_first_each_until_it_goes_on(notebook: Notebook) -> None:
    output = answered(
        notebook,
        BOTH,
        ("process 0 ipdb> ", "p me"),
        ("process 0 ipdb> ", "c"),
        ("process 1 ipdb> ", "p me"),
        ("process 1 ipdb> ", "c"),
    )
    assert output.error is None, output.traceback
    assert "asked one after another, process 0 first" in output.text
    assert "if jax.process_index() == 0: breakpoint() stops that one alone" in output.text
    assert re.search(r"^process 0 +0$", output.text, re.MULTILINE), output.text
    assert re.search(r"^process 1 +1$", output.text, re.MULTILINE), output.text


def test_a_step_over_the_last_line_ends_the_cell_and_the_tracing(notebook: Notebook) -> None:
    code = "%%dist --on 1\nbreakpoint()\nprint('x')"
    ask = "process 1 ipdb> "
    output = answered(notebook, code, (ask, "n"), (ask, "s"))
    assert output.error is None, output.traceback
    assert "skipped" not in output.text
    assert "None" in notebook.good("%dist --on 1 print(__import__('sys').gettrace())").text


def test_the_frame_that_failed_is_looked_at_afterwards(notebook: Notebook) -> None:
    failed = notebook.bad(FAILS)
    assert "process 1 raised ZeroDivisionError" in failed.traceback
    for code in ("%debug", "%dist_debug 1", "%%dist --on 1\n%debug"):
        output = answered(
            notebook,
            code,
            ("process 1 ipdb> ", "p a + 1"),
            ("process 1 ipdb> ", "u"),
            ("process 1 ipdb> ", "q"),
        )
        assert output.error is None, output.traceback
        assert "ipdb> p a + 1\n42\n" in output.text
        assert "divide(41, 0)" in output.text.partition("ipdb> u")[2]
        # Left open while the kernel is interrupted: the next one looks at the same frame.
        request = notebook.send(code, person=True)
        assert notebook.asked(request) == "process 1 ipdb> "
        notebook.interrupt()
        stopped = notebook.collect(request)
        assert stopped.error is not None and stopped.error[0] == "KeyboardInterrupt"
    # Of one that was freed from waiting it is where it waited, not what has interrupted it.
    output = answered(notebook, "%dist_debug 0", ("process 0 ipdb> ", "q"))
    assert re.search(r"^> .*site-packages/jax/", output.text, re.MULTILINE), output.text
    assert SUM in notebook.good("%dist float(w.sum())").text


def test_the_stop_button_at_a_prompt_interrupts_the_cell_on_all(notebook: Notebook) -> None:
    request = notebook.send(STOPS.format(options=""), person=True)
    assert notebook.asked(request) == "process 1 ipdb> "
    notebook.interrupt()
    stopped = notebook.collect(request)
    assert stopped.error is not None and stopped.error[0] == "KeyboardInterrupt", stopped.traceback
    assert "stuck" not in stopped.text + stopped.traceback
    assert SUM in notebook.good("%dist float(w.sum())").text


def test_what_one_process_computes_at_a_prompt_with_the_devices_of_all_fails_the_cell(
    notebook: Notebook,
) -> None:
    output = answered(
        notebook,
        STOPS.format(options=" --grace 0.5"),
        ("process 1 ipdb> ", "p (w * 3).sum()"),
        ("process 1 ipdb> ", "c"),
    )
    assert output.error is not None, output.text
    assert "in step again" in output.text, output.text
    assert SUM in notebook.good("%dist float(w.sum())").text


def test_after_a_debugger_the_stop_button_interrupts_as_before(notebook: Notebook) -> None:
    code = "%%dist --on 1\nimport time\nbreakpoint()\nprint('on', flush=True)\ntime.sleep(600)"
    request = notebook.send(code, person=True)
    assert notebook.asked(request) == "process 1 ipdb> "
    notebook.types("c")
    notebook.collect(request, until="\non|   on")
    notebook.interrupt()
    stopped = notebook.collect(request)
    assert stopped.error is not None and stopped.error[0] == "KeyboardInterrupt", stopped.traceback
    assert "Program interrupted" not in stopped.text, "pdb's own handler of the signal"


COMPILED = """%%dist --on 1
@jax.jit
def double(x):
    y = x * 2
    jax.debug.breakpoint()
    return y
print(double(np.ones(3)), flush=True)
time.sleep(600 if {sleeps} else 0)
"""


def test_the_breakpoint_of_jax_in_a_compiled_function_is_answered_and_interrupted(
    notebook: Notebook,
) -> None:
    notebook.good("%%dist\nimport time")
    prompt = "process 1 (jdb) "
    code = COMPILED.format(sleeps=False)
    output = answered(notebook, code, (prompt, "p y + 40"), (prompt, "c"))
    assert output.error is None, output.traceback
    assert "(jdb) p y + 40\nArray([42., 42., 42.], dtype=float32)\n" in output.text, output.text
    assert "[2. 2. 2.]" in output.text
    request = notebook.send(COMPILED.format(sleeps=True), person=True)
    assert notebook.asked(request) == prompt
    notebook.interrupt()
    stopped = notebook.collect(request)
    assert stopped.error is not None and stopped.error[0] == "KeyboardInterrupt", stopped.traceback
    assert "--KeyboardInterrupt--" not in stopped.text, "JAX's own loop, which goes on"
    assert SUM in notebook.good("%dist float(w.sum())").text


def test_the_breakpoint_of_jax_among_several_devices_is_passed_over_with_a_sentence(
    notebook: Notebook,
) -> None:
    code = COMPILED.format(sleeps=False).replace(" --on 1", "").replace("np.ones(3)", "w")
    request = notebook.send(code.replace("double(w)", "float(double(w).sum())"), person=True)
    passed = notebook.collect(request)
    assert passed.error is None, passed.traceback
    assert "jax.debug.breakpoint() was passed over" in passed.text
    assert "processes 0, 1   16.0" in passed.text, passed.text


def test_without_a_person_the_cell_fails_in_one_line(notebook: Notebook) -> None:
    failed = notebook.bad("%%dist --on 1\nbreakpoint()")
    assert "nobody can answer: this kernel has no input" in failed.traceback
    assert "bdb.py" not in failed.traceback


def test_a_cell_in_the_background_is_answered_by_dist_debug(notebook: Notebook) -> None:
    request = notebook.send(STOPS.format(options=" --no-wait"))
    output = notebook.collect(request)
    notebook.collect(request, until="the others wait; %dist_debug 1 opens the prompt")
    assert "at a breakpoint" in notebook.good("%dist_cells").text.splitlines()[-1]
    answers = answered(
        notebook, "%dist_debug 1", ("process 1 ipdb> ", "p y"), ("process 1 ipdb> ", "c")
    )
    assert answers.error is None, answers.traceback
    assert "ipdb> p y\n42" in answers.text and "total 8.0" in answers.text
    notebook.collect(request, until="ended after .* processes 0, 1 finished")
    assert "total 8.0" in output.text


def test_a_process_that_dies_at_a_prompt_ends_it(notebook: Notebook) -> None:
    pid = int(notebook.good("%dist --on 1 print(__import__('os').getpid())").text.split()[-1])
    request = notebook.send(STOPS.format(options=""), person=True)
    assert notebook.asked(request) == "process 1 ipdb> "
    psutil.Process(pid).kill()
    failed = notebook.collect(request)
    assert failed.error is not None
    # Once, in the error.
    assert "process 1   killed" in failed.traceback, failed.traceback
    assert "process 1   killed" not in failed.text, failed.text


def test_a_process_on_which_nothing_failed_says_so(notebook: Notebook) -> None:
    notebook.good("%dist_init --restart")
    refused = notebook.bad("%dist_debug 1").traceback
    assert refused.startswith("SessionError: No cell has failed on process 1"), refused
    assert len(refused.splitlines()) == 1
