"""What Tab offers behind a magic, and what `?` and `--help` say of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.completer import CompletionContext

from nbdist.contract.calls.engine import Complete, Completions
from nbdist.magics.commands import DistMagics
from nbdist.magics.completion import Completion, wanted
from nbdist.magics.mode import CELL_MAGIC, Mode
from nbdist.magics.options import MAGICS


@pytest.mark.parametrize(
    ("line", "matches"),
    [
        ("%%dist --on", ("--on",)),
        ("%%dist --t", ("--timeout",)),
        ("%dist_init --dev", ("--devices-per-process",)),
        ("%dist_init -n 2 --framework ke", ("keras",)),
        ("%dist_pull w --y", ("--yes",)),
        ("%dist --on 0 --ti", ("--timeout",)),
    ],
)
def test_options_and_their_values_are_offered(line: str, matches: tuple[str, ...]) -> None:
    found = wanted(line)
    assert found is not None
    assert (found.matches, found.code) == (matches, None)


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("%dist_shards par", "par"),
        ("%dist_nan --timeout 3 params['a'].w", "params['a'].w"),
        ("%dist_pull loss par", "par"),
        ("%dist_layout mod", "mod"),
        ("%dist_mesh w", "w"),
        ("%dist --on 0 x + par", "x + par"),
        ("%dist x -", "x -"),
    ],
)
def test_what_lives_on_the_processes_is_asked_there(line: str, code: str) -> None:
    found = wanted(line)
    assert found is not None
    assert (found.code, found.matches) == (code, ())


@pytest.mark.parametrize("line", ["%%dist w", "%dist_push wei", "%dist_pull w --on 0"])
def test_targets_and_names_of_the_notebook_are_no_matter_of_the_processes(line: str) -> None:
    found = wanted(line)
    assert found is not None
    assert (found.code, found.matches) == (None, ())


@pytest.mark.parametrize("line", ["print(x)", "%time par", "%dist_shards", "x = a %dist_pull b"])
def test_other_lines_are_left_to_ipython(line: str) -> None:
    assert wanted(line) is None


def completed(text: str, session: Any) -> Any:
    completion = Completion(SimpleNamespace(), lambda: session, lambda: False)
    line = text.splitlines()[-1]
    context = CompletionContext(
        token="",
        full_text=text,
        cursor_position=len(line),
        cursor_line=text.count("\n"),
        limit=None,
    )
    return completion.match(context)


def test_options_need_no_session_and_names_come_from_an_idle_process() -> None:
    found = completed("%%dist --ti", None)
    assert [one.text for one in found["completions"]] == ["--timeout"]
    assert found["matched_fragment"] == "--ti"
    asked: list[Complete] = []

    def ask_idle(call: Complete, *, timeout_s: float) -> Completions:
        asked.append(call)
        return Completions(text="par", matches=("params",))

    found = completed("%dist_shards par", SimpleNamespace(ask_idle=ask_idle))
    assert [one.text for one in found["completions"]] == ["params"]
    assert asked == [Complete(code="par", cursor=3)]
    assert completed("%dist_shards par", None) == {"completions": []}


def test_every_magic_shows_its_options_and_an_example_for_a_question_mark() -> None:
    names = {*DistMagics.magics["line"], *DistMagics.magics["cell"]} - {CELL_MAGIC}
    assert names == set(MAGICS)
    for name in names:
        doc = getattr(DistMagics, name).__doc__
        assert "--help" in doc, name
        assert "\nexample:\n  %" in doc, name


@pytest.mark.parametrize("line", ["%%dist --help", "%%rank -h", "%%local --help\n"])
def test_help_of_a_cell_magic_needs_no_body(line: str) -> None:
    assert Mode().transform([line]) == [line, "\n"]


def test_cells_that_are_no_question_for_help_stay_as_they_are() -> None:
    for lines in (["%%dist --on 0\n", "x\n"], ["%%bash --help\n"], ["%dist_pull --help\n"]):
        assert Mode().transform(lines) == lines
