"""`make check` runs all there is beside each other, says all of it, and fails where one of them does."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests import frontend_tools
from tests.checks import Check, run

WAITS = "import pathlib, time\nwhile not pathlib.Path('made').exists(): time.sleep(0.01)\nprint('it came')"
FAILS = "import sys; print('to stdout'); print('to stderr', file=sys.stderr); sys.exit(3)"


def check(code: str, folder: Path) -> Check:
    return Check([sys.executable, "-c", code], folder)


def test_one_that_fails_is_named_after_all_it_said_and_the_others_are_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fails, good = check(FAILS, tmp_path), check("print('good')", tmp_path)
    assert run([fails, good]) == [fails.name]
    said = capsys.readouterr().out
    assert said.startswith(f"{fails.name}\n")
    in_order = ("to stderr", f"{fails.name} failed with exit code 3", "good")
    places = [said.index(f"\n{line}\n") for line in in_order]
    assert places == sorted(places)
    assert said.index("\nto stdout\n") < places[1]


def test_where_none_fails_none_is_named(tmp_path: Path) -> None:
    assert run([check("pass", tmp_path)]) == []


def test_they_run_beside_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = check("open('made', 'w').close()", tmp_path)
    assert run([check(WAITS, tmp_path), made]) == []
    assert "it came" in capsys.readouterr().out


def test_those_of_the_front_end_are_all_that_its_script_names() -> None:
    scripts = json.loads((frontend_tools.FOLDER / "package.json").read_text(encoding="utf-8"))
    commands = frontend_tools.checks({"PATH": ""})
    assert " && ".join(" ".join(one) for one in commands) == scripts["scripts"]["check"]
    assert {scripts["scripts"][one[-1]].split()[0] for one in commands} == {
        *("tsc", "eslint", "prettier", "vitest")
    }
