"""A folder has one whole save, whatever was begun in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from nbdist.engine.saving import folder as folders
from nbdist.engine.saving.folder import SavedVariable, SaveFile
from nbdist.engine.saving.parts import SavedLeaf, SavedObjects
from nbdist.engine.saving.restore import _targets
from nbdist.errors import ArrayError, OptionError

PARTS = (
    SavedLeaf(
        path="",
        kind="array",
        dtype="float32",
        shape=(4,),
        spec=(("a", "b"), None, "c"),
        axes=(("a", 2),),
    ),
    SavedLeaf(path="['x']", kind="scalar", dtype="float", value=0.1 + 0.2),
)

ONE, TWO, THREE = (str(digit) * 32 for digit in (1, 2, 3))


def save_of(token: str) -> SaveFile:
    variable = SavedVariable(
        name="w", first=0, parts=PARTS, structure={"dict": [["a", 0], ["b", {"list": [1]}]]}
    )
    return SaveFile(arrays=f"{folders.ARRAYS}{token}", processes=2, variables=(variable,))


def written(folder: Path, token: str) -> SaveFile:
    folders.mark(folder, token)
    folders.arrays_of(folder, token).mkdir()
    folders.commit(folder, token, save_of(token))
    return save_of(token)


def test_what_is_read_is_what_was_written(tmp_path: Path) -> None:
    made = written(tmp_path / "it", ONE)
    assert folders.read(tmp_path / "it", "h1") == made


def test_one_that_was_begun_changes_nothing_and_the_next_removes_it(tmp_path: Path) -> None:
    made = written(tmp_path, ONE)
    folders.mark(tmp_path, TWO)
    folders.arrays_of(tmp_path, TWO).mkdir()
    folders.refuse_foreign(tmp_path)
    assert folders.read(tmp_path, "h1") == made
    written(tmp_path, THREE)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"arrays-{THREE}", "nbdist-save.json"]


def test_a_mark_that_led_to_nothing_leaves_nothing(tmp_path: Path) -> None:
    folders.mark(tmp_path / "it", ONE)
    assert folders.sees(tmp_path / "it", ONE)
    folders.unmark(tmp_path / "it", ONE)
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


def changed(folder: Path, **changes: object) -> None:
    """Writes the file of a save anew, with some of it changed."""
    data = json.loads((folder / folders.FILE).read_text())
    data["variables"][0].update(changes.pop("variable", {}))
    (folder / folders.FILE).write_text(json.dumps(data | changes))


@pytest.mark.parametrize(
    "changes",
    [
        *({"arrays": name} for name in ("../other", "/tmp", ".", "arrays-2024", 3)),
        *({"variable": {"name": name}} for name in ("__builtins__", "a.b", "if", "", 3, [])),
    ],
)
def test_a_file_that_names_other_folders_or_no_variables_is_refused(
    tmp_path: Path, changes: dict[str, object]
) -> None:
    written(tmp_path, ONE)
    changed(tmp_path, **changes)
    with pytest.raises(ArrayError, match="is not as it was written"):
        folders.read(tmp_path, "h1")


@pytest.mark.parametrize(
    "name", ["arrays-2024", "nbdist-marker-mine", "nbdist-save.json.bak", f"arrays-{TWO}"]
)
def test_a_persons_own_files_are_neither_a_save_nor_removed_with_one(
    tmp_path: Path, name: str
) -> None:
    written(tmp_path, ONE)
    (tmp_path / name).mkdir()
    (tmp_path / name / "mine").touch()
    with pytest.raises(OptionError, match=f"has '{name}' in it"):
        folders.refuse_foreign(tmp_path)
    written(tmp_path, THREE)  # even if nobody had asked
    assert {path.name for path in tmp_path.iterdir()} == {folders.FILE, f"arrays-{THREE}", name}
    assert (tmp_path / name / "mine").exists()


def test_what_a_save_that_was_ended_at_its_last_step_has_left_is_removed_by_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path, ONE)
    with monkeypatch.context() as ended:
        ended.setattr(folders, "_remove", lambda path: None)
        made = written(tmp_path, TWO)
        assert folders.read(tmp_path, "h1") == made
        written(tmp_path, THREE)
    folders.refuse_foreign(tmp_path)
    written(tmp_path, "4" * 32)
    assert sorted(p.name for p in tmp_path.iterdir()) == [f"arrays-{'4' * 32}", folders.FILE]


def test_what_would_hide_a_name_of_pythons_is_restored_only_where_it_is_named() -> None:
    part = SavedLeaf(path="", kind="scalar", dtype="int", value=1)
    variables = tuple(
        SavedVariable(name=name, parts=(part,), first=0, structure=0) for name in ("w", "print")
    )
    save = SaveFile(arrays="", processes=2, variables=variables)
    with pytest.raises(ArrayError, match="'print', which would hide what Python has"):
        _targets(save, "it", (), {}, SavedObjects([]))
    found = _targets(save, "it", ("print",), {}, SavedObjects([]))
    assert [one.variable.name for one in found] == ["print"]


def test_a_save_whose_arrays_another_has_removed_names_nothing(tmp_path: Path) -> None:
    made = written(tmp_path, ONE)
    folders.mark(tmp_path, TWO)
    with pytest.raises(ArrayError, match="has another save by now"):
        folders.commit(tmp_path, TWO, save_of(TWO))
    assert folders.read(tmp_path, "h1") == made


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
    variable = SavedVariable(name="w", first=0, parts=PARTS, structure=structure)
    with pytest.raises(ArrayError, match="Make a value of the same structure under the name w"):
        folders.skeleton_of(variable)
