"""What has been run of TPU pods has a test, and the page says what never was."""

from __future__ import annotations

import re

from tests.places import ROOT

TEXT = (ROOT / "docs/how-to/tpu.md").read_text(encoding="utf-8")
TESTED = (ROOT / "tests/README.md").read_text(encoding="utf-8")


def test_every_row_of_what_has_been_run_names_a_test_that_exists() -> None:
    rows = TESTED.partition("\n## TPU pods\n")[2].split("\n| ")[2:]
    shown = TEXT.partition("## What has been run")[2].split("\n| ")[2:]
    assert len(rows) == len(shown) > 4
    assert [row.partition(" | ")[0] for row in rows] == [row.partition(" | ")[0] for row in shown]
    for row in rows:
        named = re.findall(r"`(tests/[\w/.]+)::(test_\w+)`", row)
        assert named, row
        for file, test in named:
            assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8"), f"{file}::{test}"


def test_it_says_what_has_never_been_run() -> None:
    assert "Nothing here has ever been run on a TPU" in TEXT
    assert "Never run: libtpu" in TEXT
