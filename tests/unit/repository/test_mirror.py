"""The folders of tests of modules are those of the modules."""

from __future__ import annotations

import re

import pytest

from tests.places import ROOT

# Rooms of tests, and the packages they mirror.
MIRRORS = {"tests/unit": "nbdist", "tests/engine": "nbdist/engine"}
# Beside them: tests of the documents, of the architecture and of the tools.
OF_NO_PACKAGE = {"tests/unit/repository"}


def folders_of_tests(room: str) -> set[str]:
    return {path.parent.relative_to(ROOT).as_posix() for path in (ROOT / room).rglob("test_*.py")}


@pytest.mark.parametrize("room", MIRRORS)
def test_each_folder_of_tests_has_the_name_of_a_package(room: str) -> None:
    folders = folders_of_tests(room) - OF_NO_PACKAGE
    assert len(folders) > 5
    mirrored = {folder: folder.replace(room, MIRRORS[room], 1) for folder in folders}
    assert [folder for folder, package in mirrored.items() if not (ROOT / package).is_dir()] == []


@pytest.mark.parametrize("room", MIRRORS)
def test_each_folder_of_tests_is_a_package_so_that_names_of_files_may_repeat(room: str) -> None:
    assert [f for f in folders_of_tests(room) if not (ROOT / f / "__init__.py").is_file()] == []


def test_the_page_about_tests_names_each_folder_and_no_other() -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    tables = text.split("## What lies where", 1)[1].split("\n## ", 1)[0]
    named = set(re.findall(r"^\| `(\w+)/` \|", tables, re.MULTILINE))
    folders = {path.parent.name for path in (ROOT / "tests").glob("*/*.py")}
    assert named == folders | {"golden"}
    files = {
        name
        for row in re.findall(r"^\| (`[^|]*\.\w+`) \|", tables, re.MULTILINE)
        for name in re.findall(r"`([\w.]+)`", row)
    }
    assert len(files) > 3
    assert [name for name in files if not (ROOT / "tests" / name).is_file()] == []
