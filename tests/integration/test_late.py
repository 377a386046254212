"""What threads and callbacks show after their cell has ended, in a real kernel and in a terminal."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pexpect

from tests.integration.notebook import ANSI, Notebook

SETUP = """
import jax, jax.numpy as jnp, threading, time
def later(text, seconds):
    time.sleep(seconds)
    print(text)
"""
RUN = "import threading; threading.Timer(1.5, print, ['saved', 3]).start()"


def ended_then(notebook: Notebook, cell: str, *, until: str, between: str | None = None) -> str:
    """The text under a cell that has ended, once it matches `until`."""
    request = notebook.send(cell)
    output = notebook.collect(request)
    assert output.error is None, output.traceback
    assert not re.search(until, output.text)
    if between is not None:
        notebook.good(between)
    return notebook.collect(request, until=until, output=output, timeout_s=30).text


def test_a_thread_that_prints_after_its_cell_is_shown_under_it_while_none_runs(
    notebook: Notebook,
) -> None:
    cell = "%%dist\nprint('now')\nthreading.Thread(target=later, args=('saved', 1)).start()"
    text = ended_then(notebook, cell, until="saved")
    (number,) = set(re.findall(r"cell (\d+), processes 0, 1 \(later\)   saved", text))
    assert re.search(r"processes 0, 1   now\n+cell", text)
    assert int(number) > 0


def test_it_is_shown_under_its_cell_also_when_nbdist_has_asked_for_something_since(
    notebook: Notebook,
) -> None:
    cell = (
        "%%dist\nnumber = 3\nif jax.process_index() == 1:\n"
        "    threading.Thread(target=later, args=('of one', 3)).start()"
    )
    asked = "%dist_status\n%dist_pull number"
    text = ended_then(notebook, cell, until="of one", between=asked)
    assert re.search(r"cell \d+, process 1 \(later\)   of one", text)


def test_a_callback_of_a_computation_that_ends_after_its_cell_is_shown(notebook: Notebook) -> None:
    # JAX itself waits for a computation with callbacks on CPU: one that goes on is on a thread.
    notebook.good(
        "%%dist\n@jax.jit\ndef slow(x):\n"
        "    x = jax.lax.fori_loop(0, 60, lambda i, x: jnp.tanh(x @ x), x)\n"
        "    jax.debug.print('computed {}', x[0, 0])\n    return x\n"
        "x = jnp.ones((10, 10))\nslow(x).block_until_ready()\nx = jnp.ones((900, 900))\n"
        "compiled = slow.lower(x).compile()\n"
    )
    cell = "%%dist\nthreading.Timer(1, compiled, [x]).start()"
    text = ended_then(notebook, cell, until="computed 1", between="%dist_status")
    assert re.search(r"cell \d+, process(es)? [01, ]+ \(later\)   computed", text)


def test_in_a_terminal_it_is_printed_where_the_person_is(tmp_path: Path) -> None:
    shell = pexpect.spawn(
        sys.executable,
        ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor"],
        cwd=str(tmp_path),
        encoding="utf-8",
        timeout=60,
        dimensions=(50, 200),
    )
    try:
        for line, expected in (
            ("import nbdist", "In .2.: "),
            ("s = nbdist.start(2, platform='cpu')", "In .3.: "),
            (f"s.run({RUN!r})", "In .4.: "),
        ):
            shell.sendline(line)
            shell.expect(expected)
        shell.expect(r"cell 1, processes 0, 1 \(later\)\S*   saved 3")
        shell.sendline("s.shutdown()")
        shell.expect("In .5.: ")
        # By itself: pexpect waits only a tenth of a second for one that it ends.
        shell.sendline("exit")
        shell.expect(pexpect.EOF)
        shell.wait()
    finally:
        shell.close(force=True)
    assert "Traceback" not in ANSI.sub("", shell.before or "")


def test_a_progress_display_of_an_ended_cell_goes_on_in_its_place(notebook: Notebook) -> None:
    cell = (
        "%%dist\nimport threading, time\nfrom IPython.display import display, HTML\n"
        "shown = display(HTML('<b>half</b>'), display_id=True)\n"
        "threading.Timer(1, lambda: shown.update(HTML('<b>whole</b>'))).start()"
    )
    request = notebook.send(cell)
    output = notebook.collect(request)
    assert output.mime("text/html") == ["<b>half</b>"]
    while output.mime("text/html") != ["<b>whole</b>"]:
        message = notebook.client.get_iopub_msg(timeout=30)
        notebook._take(message, output)
