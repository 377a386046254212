"""What the documents and the printed texts say exists, exists; and the versions agree."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path

import pytest

from nbdist import cli
from nbdist.magics import options
from nbdist.magics.commands import DistMagics
from nbdist.magics.typed import CELL_MAGIC, LOCAL
from nbdist.version import __version__
from tests.places import ROOT

README = ROOT / "README.md"
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
COMMAND = re.compile(r"(?<![\w/.-])nbdist (?=[a-z])([\w-]+)(?=[` ]| --|$)", re.M)
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
    "--accelerator-type",
    "--version",
    "--no-deps",
    "--wheel-dir",
    "--to",
    "--execute",
    "--output",
    "--host",
    "--targets",
    "--noblock",
    "--local",
}
"""Of commands that are not nbdist's: TensorBoard's, gcloud's, ipcluster's, pip's, nbconvert's, mpirun's, `%%px`'s
and a script's."""
NAMED_TEST = re.compile(r"`([\w/]+/test_\w+\.py)`")


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
    listed = argparse.ArgumentParser().add_subparsers()
    cli.add_commands(listed)
    parsers = [*(magic.parser() for magic in options.MAGICS.values()), *listed.choices.values()]
    return {flag for parser in parsers for a in parser._actions for flag in a.option_strings}


def commands(capsys: pytest.CaptureFixture[str]) -> set[str]:
    """What `nbdist --help` offers."""
    with pytest.raises(SystemExit):
        cli.main(["--help"])
    found = re.search(r"\{([\w,-]+)\}", capsys.readouterr().out)
    assert found
    return set(found[1].split(","))


def test_the_table_of_magics_has_each_once_and_no_other() -> None:
    rows = re.findall(r"^\| `(%%?\w+)` \| \S.*\|$", MAGICS.read_text(encoding="utf-8"), re.M)
    assert sorted(rows) == sorted(registered())


def test_no_text_names_a_magic_that_does_not_exist() -> None:
    texts = [*DOCUMENTS, *NOTEBOOKS, *SOURCES]
    found = {str(path): unknown_magics(path.read_text(encoding="utf-8")) for path in texts}
    assert {path: names for path, names in found.items() if names} == {}


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


def test_the_page_about_tests_names_files_that_exist() -> None:
    named = set(NAMED_TEST.findall(TESTED.read_text(encoding="utf-8")))
    assert len(named) > 30
    assert {name for name in named if not (ROOT / "tests" / name).exists()} == set()
