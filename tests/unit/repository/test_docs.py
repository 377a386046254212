"""What the documents and the printed texts say exists, exists; and the versions agree."""

from __future__ import annotations

import argparse
import inspect
import json
import re
from pathlib import Path

import pytest

from nbdist import cli, listing
from nbdist.magics import options
from nbdist.magics.commands import DistMagics
from nbdist.magics.mode import CELL_MAGIC, LOCAL
from nbdist.version import __version__
from tests.places import ROOT

README = ROOT / "README.md"
PYTHON = ROOT / "docs" / "reference" / "python.md"
MAGICS = ROOT / "docs" / "reference" / "magics.md"
TESTED = ROOT / "tests" / "README.md"
MANUALS = [README, *sorted((ROOT / "docs").rglob("*.md"))]
DOCUMENTS = [*MANUALS, TESTED, ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))
SOURCES = [
    *sorted((ROOT / "nbdist").rglob("*.py")),
    *sorted((ROOT / "labextension" / "src").rglob("*.ts")),
]
# Written as a person writes them: after a space, a quote or the like, so that `%d` of a format is none.
MAGIC = re.compile(r"(?<![\w%])%%?(?:dist\w*|rank|sync|local)\b")
COMMAND = re.compile(r"(?<![\w/.-])nbdist (?=[a-z])(\w+)(?=[` ]| --|$)", re.M)
TARGET = re.compile(r"\bmake ([a-z][\w-]*)(?=[`\s,.]|$)")
FLAG = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
OTHERS_FLAGS = {
    "--logdir",
    "--format",
    "--worker",
    "--command",
    "--dry-run",
    "--profile",
    "--steps",
}
"""Of commands that are not nbdist's: TensorBoard's, gcloud's, ipcluster's and a script's."""
ROW = re.compile(r"^\| ([KT]\d) \|.*\|$", re.M)
NAMED_TEST = re.compile(r"`(tests/[\w/.]+)::(test_\w+)`")
CELL = re.compile(r"^\| (local|SSH|Slurm|MPI|TPU|attach|doctor) \|.*\|$", re.M)
ROWS = {*(f"K{n}" for n in range(1, 6)), *(f"T{n}" for n in range(1, 10))}


def registered() -> set[str]:
    """Every magic a person can write, with its signs."""
    magics = DistMagics.magics
    cells = {f"%%{name}" for name in magics["cell"] if name != CELL_MAGIC}
    lines = {f"%{name}" for name in magics["line"] if name not in magics["cell"]}
    return cells | lines | {LOCAL}


def unknown_magics(text: str) -> set[str]:
    """The magics a text names that do not exist; one or two signs are the same here."""
    known = {name.lstrip("%") for name in registered()}
    return {found for found in MAGIC.findall(text) if found.lstrip("%") not in known}


def flags() -> set[str]:
    """All options of all magics, and of the commands that are no magic as well."""
    makers = [
        make
        for _, make in inspect.getmembers(options, inspect.isfunction)
        if make.__module__.startswith("nbdist.magics.")
        and not inspect.signature(make).parameters
        and inspect.signature(make).return_annotation == "Parser"
    ]
    assert len(makers) > 5
    listed = argparse.ArgumentParser().add_subparsers()
    listing.add_commands(listed)
    options.rehearse_options(listed.add_parser("rehearse"))
    parsers = [*(make() for make in makers), *listed.choices.values()]
    return {flag for parser in parsers for a in parser._actions for flag in a.option_strings}


def commands(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """What `nbdist --help` offers."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    found = re.search(r"\{([\w,]+)\}", capsys.readouterr().out)
    assert found
    return set(found[1].split(","))


def table_rows() -> list[str]:
    return re.findall(r"^\| `(%%?\w+)` \| \S.*\|$", MAGICS.read_text(encoding="utf-8"), re.M)


def test_the_table_of_magics_has_each_once_and_no_other() -> None:
    rows = table_rows()
    assert sorted(rows) == sorted(registered())


def test_no_text_names_a_magic_that_does_not_exist() -> None:
    texts = [*DOCUMENTS, *NOTEBOOKS, *SOURCES]
    found = {str(path): unknown_magics(path.read_text(encoding="utf-8")) for path in texts}
    assert {path: names for path, names in found.items() if names} == {}


@pytest.mark.parametrize("name", ["%dist_load", "%dist_cure", "%dist_undo", "%%dist_all"])
def test_a_magic_that_does_not_exist_would_be_found(name: str) -> None:
    for text in (f"Run {name}.", f'"{name}"', f"`{name} x`", f"({name})", f"\n{name} -n 2\n"):
        assert unknown_magics(text) == {name}


@pytest.mark.parametrize(
    "path", [*MANUALS, *NOTEBOOKS], ids=lambda path: str(path.relative_to(ROOT))
)
def test_no_document_names_an_option_that_does_not_exist(path: Path) -> None:
    assert set(FLAG.findall(path.read_text(encoding="utf-8"))) <= flags() | OTHERS_FLAGS


def test_no_document_names_a_command_that_does_not_exist(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = commands(capsys)
    marked = [
        quoted
        for path in DOCUMENTS
        for quoted in re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))
    ]
    named = {found[1] for quoted in marked if (found := COMMAND.match(quoted))}
    assert named
    assert named <= known


def test_no_document_names_a_make_target_that_does_not_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z][\w-]*):", makefile, re.M))
    code = [
        quoted
        for path in DOCUMENTS
        for quoted in re.findall(
            r"`make [^`\n]+`|^make .+$", path.read_text(encoding="utf-8"), re.M
        )
    ]
    named = {found[1] for quoted in code if (found := TARGET.search(quoted))}
    assert {"demo", "test"} <= named
    assert named <= targets


def test_the_newest_entry_of_the_changelog_is_this_version() -> None:
    entries = re.findall(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.M)
    assert entries[0] == __version__


def test_the_browser_part_has_the_same_version() -> None:
    package = json.loads((ROOT / "labextension" / "package.json").read_text(encoding="utf-8"))
    assert package["version"] == __version__


def test_links_between_documents_lead_somewhere() -> None:
    for path in DOCUMENTS:
        for link in re.findall(r"\]\(([^):#]+)\)", path.read_text(encoding="utf-8")):
            assert (path.parent / link).exists(), f"{path.name} links to {link}"


def test_the_example_in_python_uses_options_that_exist() -> None:
    example = re.search(r"```python\n(.+?)```", PYTHON.read_text(encoding="utf-8"), re.S)
    assert example
    compile(example[1], PYTHON.name, "exec")
    start = set(options.start_arguments(options.dist_init().parse("")))
    called = re.search(r"nbdist\.start\(\d+, (.+?)\)", example[1])
    assert called
    assert {part.partition("=")[0].strip() for part in called[1].split(",")} <= start


def check_that_tests_exist(row: str) -> None:
    """Every test that a row of a table names is defined in the file it says."""
    for file, test in NAMED_TEST.findall(row):
        source = (ROOT / file).read_text(encoding="utf-8")
        assert f"def {test}(" in source, f"{file} has no {test}"


def test_every_cell_of_the_matrix_of_launchers_names_a_test_that_exists() -> None:
    rows = list(CELL.finditer(TESTED.read_text(encoding="utf-8")))
    launchers = {"local", "SSH", "Slurm", "MPI", "TPU", "attach", "doctor"}
    assert {row[1] for row in rows} == launchers
    assert len(rows) > 40
    for row in rows:
        assert NAMED_TEST.search(row[0]), row[0]
        check_that_tests_exist(row[0])


def test_every_promise_of_keras_and_tensorflow_names_a_test_that_exists() -> None:
    text = TESTED.read_text(encoding="utf-8")
    assert set(ROW.findall(text)) == ROWS
    for row in ROW.finditer(text):
        named = NAMED_TEST.findall(row[0])
        assert named, row[0]
        check_that_tests_exist(row[0])
        assert any(test.startswith(f"test_{row[1].lower()}_") for _, test in named), row[0]
