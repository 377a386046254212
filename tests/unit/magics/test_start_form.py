"""The form of a start: the first field that is wrong, and the parser's and the planner's own words about it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell

from nbdist.errors import OptionError
from nbdist.launch.model.start_options import StartOptions
from nbdist.magics import options
from nbdist.magics.start_form import Piece, check, error_of
from nbdist.spelling import Door, through
from nbdist.starting import planned


@pytest.mark.parametrize(
    ("pieces", "field"),
    [
        ([], None),
        ([("processes", "-n 4"), ("devices", "--devices-per-process 2")], None),
        ([("further", "--attach last")], None),
        ([("further", "--help")], None),
        ([("processes", "-n x")], "processes"),
        ([("processes", "-n 0"), ("platform", "--platform cpu")], "processes"),
        ([("processes", "-n 100000000")], "processes"),
        ([("processes", "-n 2"), ("devices", "--devices-per-process 0")], "devices"),
        ([("processes", "-n 2"), ("hosts", "--hosts")], "hosts"),
        ([("processes", "-n 3"), ("hosts", "--hosts h1:2")], "hosts"),
        ([("hosts", "--hosts h1:0"), ("framework", "--framework keras")], "hosts"),
        ([("framework", "--framework <b>bold</b>")], "framework"),
        ([("processes", "-n 2"), ("further", "--nodes 2")], "further"),
        ([("processes", "-n 2"), ("further", "'")], "further"),
        ([("processes", "-n 2"), ("further", "--attach last")], "further"),
        ([("further", "--restart --keep")], "further"),
        ([("further", "--sync /there/is/no/such/folder")], "further"),
    ],
)
def test_the_field_that_is_wrong_is_named(pieces: list[Piece], field: str | None) -> None:
    error = error_of(pieces)
    assert (error and error["field"]) == field


@pytest.mark.parametrize("line", ["-n x", "-n 0", "--platform gpu --hosts h1:0", "--grace -1"])
def test_the_text_is_the_one_that_the_start_itself_would_raise(line: str) -> None:
    error = error_of([("further", line)])
    with pytest.raises(OptionError) as raised, through(Door.MAGIC):
        asked = options.parser("dist_init").parse(line)
        planned(StartOptions(**options.start_arguments(asked)))
    assert error == {"field": "further", "text": str(raised.value)}


def test_help_prints_nothing_into_the_notebook(capsys: pytest.CaptureFixture[str]) -> None:
    error_of([("further", "--help")])
    assert capsys.readouterr().out == ""


def _answer() -> dict[str, Any]:
    data = check(json.dumps([["processes", "-n 4"]])).data
    assert json.loads(json.dumps(data)) == data
    assert isinstance(data, dict)
    return data


def test_the_answer_has_the_choices_and_whether_the_magics_are_there(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("nbdist.magics.start_form.get_ipython", lambda: None)
    answer = _answer()
    assert answer["error"] is None
    assert answer["loaded"] is False
    assert {"cpu", "gpu", "tpu"} <= set(answer["choices"]["platform"])
    assert {"jax", "keras", "tensorflow"} <= set(answer["choices"]["framework"])
    shell = InteractiveShell()
    try:
        monkeypatch.setattr("nbdist.magics.start_form.get_ipython", lambda: shell)
        assert _answer()["loaded"] is False
        shell.extension_manager.loaded.add("nbdist")
        assert _answer()["loaded"] is True
    finally:
        shell.history_manager.end_session()
