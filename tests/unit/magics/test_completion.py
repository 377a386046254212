"""What Tab offers behind a magic and in its cells, and what `?` and `--help` say of it."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from IPython.core.completer import CompletionContext

from nbdist.contract.calls.engine import Complete, Completions
from nbdist.magics.commands import DistMagics
from nbdist.magics.options import MAGICS
from nbdist.magics.typed import CELL_MAGIC, Completion, CompletionText, reported, wanted


@pytest.mark.parametrize(
    ("line", "matches", "code"),
    [
        ("%%dist --on", ("--on",), None),
        ("%dist_init --dev", ("--devices-per-process",), None),
        ("%dist_init -n 2 --framework ke", ("keras",), None),
        ("%dist_pull w --y", ("--yes",), None),
        ("%dist --on 0 --ti", ("--timeout",), None),
        # What lives on the processes is asked there.
        ("%dist_shards par", (), "par"),
        ("%dist_nan --timeout 3 params['a'].w", (), "params['a'].w"),
        ("%dist_pull loss par", (), "par"),
        ("%dist_mesh w", (), "w"),
        ("%dist --on 0 x + par", (), "x + par"),
        ("%dist x -", (), "x -"),
        # Targets and names of the notebook are not.
        ("%%dist w", (), None),
        ("%dist_push wei", (), None),
        ("%dist_pull w --on 0", (), None),
    ],
)
def test_options_and_what_lives_on_the_processes_are_offered(
    line: str, matches: tuple[str, ...], code: str | None
) -> None:
    word = line.rpartition(" ")[2]
    assert wanted(line) == CompletionText(fragment=word, matches=matches, code=code)


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

    session = SimpleNamespace(ask_idle=ask_idle)
    for text in ("%dist_shards par", "%%dist\nx = 1\npar"):
        assert [one.text for one in completed(text, session)["completions"]] == ["params"]
    assert asked == [Complete(code="par", cursor=3), Complete(code="x = 1\npar", cursor=9)]
    assert completed("%dist_shards par", None) == completed("par", session) == {"completions": []}


def test_a_name_that_is_missing_here_and_exists_there_is_hinted_at(
    capsys: pytest.CaptureFixture[str],
) -> None:
    answer = Completions(text="w", matches=("w", "w2"))
    session = SimpleNamespace(ask_idle=lambda call, *, timeout_s: answer)
    completion = Completion(SimpleNamespace(), lambda: session, lambda: False)
    for name in ("w", "v"):
        completion.look(SimpleNamespace(error_in_exec=NameError(name=name)))
    completion.look(SimpleNamespace(error_in_exec=None))
    said = capsys.readouterr().out
    assert said.startswith("w exists ") and "%dist_pull w" in said and said.count("\n") == 1


PATHS = [
    "w",
    "params['w']",
    "params['b']",
    "model.blocks[0].qkv",
    "model.blocks[1].qkv",
    "model.head",
]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["w", "params", "model"]),
        ("p", ["params"]),
        ("params", ["params['w']", "params['b']"]),
        ("params['w']", []),
        ("model.", ["model.blocks", "model.head"]),
        ("model.blocks[", ["model.blocks[0]", "model.blocks[1]"]),
        ("other", []),
    ],
)
def test_while_all_are_in_a_cell_a_reported_path_goes_on_by_a_step(
    text: str, expected: list[str]
) -> None:
    assert reported(PATHS, text) == expected


def test_every_magic_shows_its_options_and_an_example_for_a_question_mark() -> None:
    names = {*DistMagics.magics["line"], *DistMagics.magics["cell"]} - {CELL_MAGIC}
    assert names == set(MAGICS)
    for name in names:
        doc = getattr(DistMagics, name).__doc__
        assert "--help" in doc and "\nexample:\n  %" in doc, name
