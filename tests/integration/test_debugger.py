"""`breakpoint()` and `%debug` on a process, as a person at the notebook meets them."""

from __future__ import annotations

import re

import psutil

from tests.builders.cells import SPREAD, SUM
from tests.integration.notebook import Notebook, Output

SETUP = SPREAD
STOPS = """%%dist{options}
y = me + 41
if me == 1:
    breakpoint()
total = float(w.sum())
print('total', total)
"""
COMPILED = """%%dist --on 1
@jax.jit
def double(x):
    y = x * 2
    jax.debug.breakpoint()
    return y
print(double(np.ones(3)), flush=True)
time.sleep(600 if {sleeps} else 0)
"""
SUMS = "%dist float(w.sum())"
PROMPT = "process 1 ipdb> "
JDB = "process 1 (jdb) "


def answered(notebook: Notebook, code: str, *lines: str, prompt: str = PROMPT) -> Output:
    """A cell with a person who types each line at its prompt."""
    request = notebook.send(code, person=True)
    for line in lines:
        assert notebook.asked(request, timeout_s=20) == prompt
        notebook.types(line)
    return notebook.collect(request)


def good(output: Output) -> str:
    assert output.error is None, output.traceback
    return output.text


def stopped_at(notebook: Notebook, code: str, prompt: str = PROMPT) -> Output:
    """A cell that the stop button ends at its prompt."""
    request = notebook.send(code, person=True)
    assert notebook.asked(request) == prompt
    return notebook.stopped(request)


def test_one_process_is_looked_at_while_the_other_waits_for_it(notebook: Notebook) -> None:
    text = good(answered(notebook, STOPS.format(options=" --grace 0.5"), "p y * 100", "y = 7", "c"))
    assert re.search(r"process 1 .*breakpoint in line 4", text), text
    assert re.search(r"^> cell \d+\(4\)<module>\(\)$", text, re.MULTILINE), text
    assert "ipdb> p y * 100\n4200\n" in text
    assert "processes 0, 1   total 8.0" in text
    assert "repaired" not in text
    notebook.shows("%dist --on 1 y", "process 1   7")


def test_leaving_the_debugger_fails_the_cell_and_frees_the_other(notebook: Notebook) -> None:
    output = answered(notebook, STOPS.format(options=" --grace 0.5"), "q")
    output.names("ProcessError: Process 1 raised BdbQuit", "process 0   interrupted")
    notebook.shows(SUMS, SUM)


def test_all_that_stop_are_asked_the_lowest_first_each_until_it_goes_on(notebook: Notebook) -> None:
    request = notebook.send("%%dist\nimport pdb\npdb.set_trace()\nz = me", person=True)
    for process in (0, 1):
        for line in ("p me", "c"):
            assert notebook.asked(request, timeout_s=20) == f"process {process} ipdb> "
            notebook.types(line)
    text = good(notebook.collect(request))
    assert "one after another, process 0 first" in text
    assert "if jax.process_index() == 0: breakpoint()" in text
    assert re.findall(r"^process (\d) +(\d)$", text, re.MULTILINE) == [("0", "0"), ("1", "1")]


def test_a_step_over_the_last_line_ends_the_cell_and_the_tracing(notebook: Notebook) -> None:
    text = good(answered(notebook, "%%dist --on 1\nbreakpoint()\nprint('x')", "n", "s"))
    assert "skipped" not in text
    notebook.shows("%dist --on 1 print(__import__('sys').gettrace())", "None")


def test_the_frame_that_failed_is_looked_at_afterwards(notebook: Notebook) -> None:
    notebook.fails(
        "%%dist\ndef divide(a, b):\n    return a / b\nif me == 1:\n    divide(41, 0)\nprint(float(w.sum()))",
        "Process 1 raised ZeroDivisionError",
    )
    for code in ("%debug", "%dist_debug 1", "%%dist --on 1\n%debug"):
        text = good(answered(notebook, code, "p a + 1", "u", "q"))
        assert "ipdb> p a + 1\n42\n" in text
        assert "divide(41, 0)" in text.partition("ipdb> u")[2]
        # Left open while the kernel is interrupted: the next one looks at the same frame.
        stopped_at(notebook, code)
    # Of one that was freed from waiting it is where it waited, not what has interrupted it.
    output = answered(notebook, "%dist_debug 0", "q", prompt="process 0 ipdb> ")
    assert re.search(r"^> .*site-packages/jax/", output.text, re.MULTILINE), output.text
    notebook.shows(SUMS, SUM)


def test_the_stop_button_at_a_prompt_interrupts_the_cell_on_all(notebook: Notebook) -> None:
    stopped = stopped_at(notebook, STOPS.format(options=""))
    assert "stuck" not in stopped.text + stopped.traceback
    notebook.shows(SUMS, SUM)


def test_what_one_process_computes_at_a_prompt_with_the_devices_of_all_fails_the_cell(
    notebook: Notebook,
) -> None:
    output = answered(notebook, STOPS.format(options=" --grace 0.5"), "p (w * 3).sum()", "c")
    assert output.error is not None, output.text
    assert "was repaired in" in output.traceback, output.traceback
    notebook.shows(SUMS, SUM)


def test_after_a_debugger_the_stop_button_interrupts_as_before(notebook: Notebook) -> None:
    code = "%%dist --on 1\nbreakpoint()\nprint('on', flush=True)\ntime.sleep(600)"
    request = notebook.send(code, person=True)
    assert notebook.asked(request) == PROMPT
    notebook.types("c")
    notebook.collect(request, until="\non|   on")
    stopped = notebook.stopped(request)
    assert "Program interrupted" not in stopped.text, "pdb's own handler"


def test_the_breakpoint_of_jax_in_a_compiled_function_is_answered_and_interrupted(
    notebook: Notebook,
) -> None:
    text = good(answered(notebook, COMPILED.format(sleeps=False), "p y + 40", "c", prompt=JDB))
    assert "(jdb) p y + 40\nArray([42., 42., 42.], dtype=float32)\n" in text, text
    assert "[2. 2. 2.]" in text
    stopped = stopped_at(notebook, COMPILED.format(sleeps=True), JDB)
    assert "--KeyboardInterrupt--" not in stopped.text, "JAX's own loop, which goes on"
    notebook.shows(SUMS, SUM)


def test_the_breakpoint_of_jax_among_several_devices_is_passed_over_with_a_sentence(
    notebook: Notebook,
) -> None:
    code = COMPILED.format(sleeps=False).replace(" --on 1", "").replace("np.ones(3)", "w")
    text = good(answered(notebook, code.replace("double(w)", "float(double(w).sum())")))
    assert "jax.debug.breakpoint() was passed over" in text
    assert "processes 0, 1   16.0" in text, text


def test_without_a_person_the_cell_fails_in_one_line(notebook: Notebook) -> None:
    failed = notebook.fails("%%dist --on 1\nbreakpoint()", "this kernel has no input")
    assert "bdb.py" not in failed.traceback


def test_a_cell_in_the_background_is_answered_by_dist_debug(notebook: Notebook) -> None:
    request, output = notebook.background(STOPS.format(options=" --no-wait"), "%dist_debug 1 opens")
    assert "at a breakpoint" in notebook.good("%dist_cells").text.splitlines()[-1]
    answers = good(answered(notebook, "%dist_debug 1", "p y", "c"))
    assert "ipdb> p y\n42" in answers and "total 8.0" in answers
    notebook.collect(request, until="ended after .* processes 0, 1 finished")
    assert "total 8.0" in output.text


# The last ones: a process ends, and the session is started again.


def test_a_process_that_dies_at_a_prompt_ends_it(notebook: Notebook) -> None:
    pid = int(notebook.good("%dist --on 1 print(__import__('os').getpid())").text.split()[-1])
    request = notebook.send(STOPS.format(options=""), person=True)
    assert notebook.asked(request) == PROMPT
    psutil.Process(pid).kill()
    failed = notebook.collect(request)
    # Once, in the error.
    failed.names("Process 1 was killed")
    assert "process 1   killed" not in failed.text, failed.text


def test_a_process_on_which_nothing_failed_says_so(notebook: Notebook) -> None:
    notebook.good("%dist_init --restart")
    refused = notebook.fails("%dist_debug 1", "SessionError: ", "process 1").traceback
    assert len(refused.splitlines()) == 1
