"""The rooms in CONTRIBUTING are those that import-linter guards, and each module stands in one of them."""

from __future__ import annotations

import configparser
import re

import pytest

from tests.places import ROOT

SECTIONS = {
    "rooms": "nbdist",
    "session": "nbdist/session",
    "rehearsal": "nbdist/rehearsal",
    "launch": "nbdist/launch",
    "engine": "nbdist/engine",
}
NO_ROOMS = {"__init__", "__pycache__", "labextension", "static"}


def guarded(section: str) -> list[tuple[int, str]]:
    """Floor and name of each room, from the top."""
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    layers = parser[f"importlinter:contract:{section}"]["layers"].strip().splitlines()
    return [
        (len(layers) - nth, room)
        for nth, layer in enumerate(layers)
        for room in re.split(r"\s*[|:]\s*", layer.strip())
    ]


def documented(folder: str) -> list[tuple[int, str]]:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    after = text.split(f"In `{folder}/`", 1)[1].split("\n\n", 2)[1]
    rows = re.findall(r"^\| (\d+) \| `(\w+)` \| \S", after, re.MULTILINE)
    return [(int(floor), room) for floor, room in rows]


@pytest.mark.parametrize("section", SECTIONS)
def test_the_tables_are_what_is_guarded(section: str) -> None:
    assert documented(SECTIONS[section]) == guarded(section)


@pytest.mark.parametrize("section", SECTIONS)
def test_each_module_stands_in_a_room(section: str) -> None:
    folder = ROOT / SECTIONS[section]
    there = {p.stem for p in folder.iterdir() if p.is_dir() or p.suffix == ".py"} - NO_ROOMS
    assert there == {room for _, room in guarded(section)}
