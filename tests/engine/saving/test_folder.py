"""A folder has one whole save, whatever was begun in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbdist.engine.saving import folder as folders
from nbdist.engine.saving.folder import Save, Variable
from nbdist.engine.saving.parts import Part
from nbdist.errors import ArrayError, OptionError

PARTS = (
    Part(
        path="",
        kind="array",
        dtype="float32",
        shape=(4,),
        spec=(("a", "b"), None, "c"),
        axes=(("a", 2),),
    ),
    Part(path="['x']", kind="scalar", dtype="float", value=0.1 + 0.2),
)


def save_of(token: str) -> Save:
    variable = Variable(
        name="w", first=0, parts=PARTS, structure={"dict": [["a", 0], ["b", {"list": [1]}]]}
    )
    return Save(arrays=f"{folders.ARRAYS}{token}", processes=2, variables=(variable,))


def written(folder: Path, token: str) -> Save:
    folders.mark(folder, token)
    folders.arrays_of(folder, token).mkdir()
    folders.commit(folder, token, save_of(token))
    return save_of(token)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    made = written(tmp_path / "it", "one")
    assert folders.read(tmp_path / "it", "h1") == made


def test_one_that_was_begun_changes_nothing_and_the_next_removes_it(tmp_path: Path) -> None:
    made = written(tmp_path, "one")
    folders.mark(tmp_path, "two")
    folders.arrays_of(tmp_path, "two").mkdir()
    folders.refuse_foreign(tmp_path)
    assert folders.read(tmp_path, "h1") == made
    written(tmp_path, "three")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["arrays-three", "nbdist-save.json"]


def test_a_mark_that_led_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    folders.mark(tmp_path / "it", "one")
    assert folders.sees(tmp_path / "it", "one")
    folders.unmark(tmp_path / "it", "one")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "cannot be restored: Expecting property name"),
        ("[]", "its format is None"),
        (json.dumps({"format": 99}), "its format is 99, and this nbdist reads 1"),
        (json.dumps({"format": 1}), "is not as it was written"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / folders.FILE).write_text(text)
    with pytest.raises(ArrayError, match=said):
        folders.read(tmp_path, "h1")


def test_folders_that_have_something_else_are_refused(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="there is no folder"):
        folders.refuse_foreign(tmp_path / "no" / "it")
    folders.refuse_foreign(tmp_path)
    (tmp_path / "mine").touch()
    with pytest.raises(OptionError, match="has 'mine' in it"):
        folders.refuse_foreign(tmp_path)
    with pytest.raises(OptionError, match="is an address"):
        folders.folder_of("gs://bucket/it")


@pytest.mark.parametrize("structure", [None, "no container", {"tuple": 3}, {"set": [1]}, 1.5])
def test_what_cannot_be_made_anew_says_how_it_can_be_restored(structure: object) -> None:
    variable = Variable(name="w", first=0, parts=PARTS, structure=structure)
    with pytest.raises(ArrayError, match="Make a value of the same structure under the name w"):
        folders.skeleton_of(variable)
