"""Where a cell runs: in the notebook, on the processes while `%dist_mode` is on, on both with `%%dist --here`."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from IPython.core.inputtransformer2 import TransformerManager
from IPython.core.interactiveshell import InteractiveShell

from nbdist.errors import NotebookError, OptionError, ProcessError
from nbdist.magics.typed import Mode, refuse_here, run_here, say_here
from nbdist.spelling import Door, through
from tests.builders.outcomes import stands


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
    with pytest.raises(NotebookError, match="ZeroDivisionError"):
        run_here(shell, "x = 1\n1 / 0", processes=lambda: None)
    shown = re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)
    assert "----> 3 1 / 0" in shown


def test_a_failure_on_the_processes_is_raised_and_nothing_runs_here(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> None:
        raise ProcessError("process 1 raised ValueError")

    with pytest.raises(ProcessError, match="process 1"):
        run_here(shell, "y = 1", processes=fail)
    assert "not run" in capsys.readouterr().out
    assert "y" not in shell.user_ns


@pytest.mark.parametrize(
    ("error", "here", "does"),
    [
        ("NameError: name 'x' is not defined", {"x": 1}, "%dist_push x sends it."),
        ("NameError: name 'x' is not defined", {"x": re}, "Import it in a %%dist cell, too."),
        ("NameError: name 'x' is not defined", {"y": 1}, None),
        ("ValueError: x", {"x": 1}, None),
    ],
)
def test_a_name_that_is_only_in_the_notebook_is_advice_below_the_error(
    error: str, here: dict[str, object], does: str | None
) -> None:
    failed = ProcessError("It failed.", (stands(1, "raised", error=error),))
    with through(Door.MAGIC):
        say_here(failed, here)
    found = "x exists in the notebook, not on the processes."
    assert failed.notice.do == ("" if does is None else f"{found} {does}")


def test_what_is_not_waited_for_or_awaits_is_refused(shell: InteractiveShell) -> None:
    with pytest.raises(OptionError, match="--no-wait"):
        refuse_here(shell, "x = 1", wait=False)
    with pytest.raises(OptionError, match="await"):
        refuse_here(shell, "await f()", wait=True)
    refuse_here(shell, "x = 1", wait=True)


@pytest.mark.parametrize(
    ("typed", "expected"),
    [("x = 1", "complete"), ("for i in range(3):", "incomplete"), ("x = (1,", "incomplete")],
)
def test_a_cell_is_complete_where_it_is_without_the_mode(typed: str, expected: str) -> None:
    mode, manager = Mode(), TransformerManager()
    mode.enabled = True
    manager.cleanup_transforms.insert(0, mode.transform)
    assert manager.check_complete(typed)[0] == expected
    assert manager.transform_cell("x = 1").startswith("get_ipython().run_cell_magic('dist_plain'")


@pytest.mark.parametrize("line", ["%dist x.shape", "%dist --on 0 x", "%dist_status", "%sync"])
def test_line_magics_of_nbdist_are_read_in_the_notebook_also_while_the_mode_is_on(
    line: str,
) -> None:
    mode = Mode()
    mode.enabled = True
    assert mode.transform([f"{line}\n"]) == [f"{line}\n"]
    assert mode.transform([f"{line}\n", "y\n"])[0] == "%%dist_plain\n"


@pytest.mark.parametrize(
    ("lines", "read"),
    [
        # IPython refuses a cell magic without a body.
        (["%%dist --help"], ["%%dist --help", "\n"]),
        (["%%rank -h"], ["%%rank -h", "\n"]),
        (["%%local --help\n"], ["%%local --help\n", "\n"]),
        (["%%dist --on 0\n", "x\n"], None),
        (["%%bash --help\n"], None),
        (["%dist_pull --help\n"], None),
        (["%%rank[0,1]\n", "x\n"], ["%%rank [0,1]\n", "x\n"]),
        (["%%local\n", "x\n"], ["# %%local\n", "x\n"]),
    ],
)
def test_the_first_line_is_changed_where_ipython_would_misread_it(
    lines: list[str], read: list[str] | None
) -> None:
    assert Mode().transform(lines) == (lines if read is None else read)
