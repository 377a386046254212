"""`%%dist --here`: a cell on the processes, then in the notebook."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbdist.errors import NotebookError, OptionError, ProcessError
from nbdist.magics.mode import Mode, refuse_here, run_here


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    made = InteractiveShell()
    mode = Mode()
    mode.enabled = True
    made.input_transformers_cleanup.insert(0, mode.transform)
    yield made
    made.history_manager.end_session()


def test_it_runs_in_the_notebook_below_its_own_label_also_while_the_mode_is_on(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    run_here(shell, "x = 2\nprint('x is', x)", processes=lambda: print("processes 0, 1   x is 2"))
    assert capsys.readouterr().out == "processes 0, 1   x is 2\nin the notebook\nx is 2\n"
    assert shell.user_ns["x"] == 2


def test_a_failure_in_the_notebook_is_an_error_at_the_line_of_the_cell(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(NotebookError, match="failed in the notebook: ZeroDivisionError"):
        run_here(shell, "x = 1\n1 / 0", processes=lambda: None)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "----> 3 1 / 0" in shown


def test_a_failure_on_the_processes_is_raised_and_nothing_runs_here(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ProcessError("process 1 raised ValueError")

    with pytest.raises(ProcessError, match="process 1 raised ValueError"):
        run_here(shell, "y = 1", processes=fail)
    assert "in the notebook   not run, since the cell has failed" in capsys.readouterr().out
    assert "y" not in shell.user_ns


def test_what_is_not_waited_for_or_awaits_is_refused(shell: InteractiveShell) -> None:
    with pytest.raises(OptionError, match=r"--no-wait does not wait for that.*nothing was run"):
        refuse_here(shell, "x = 1", wait=False)
    with pytest.raises(OptionError, match="await outside of a function"):
        refuse_here(shell, "await f()", wait=True)
    refuse_here(shell, "x = 1", wait=True)
