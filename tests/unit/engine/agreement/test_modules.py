"""Whose a module is: told by where its file really is."""

from __future__ import annotations

import os
import types
from pathlib import Path

import pytest

from nbdist.engine.agreement import reads


def test_a_file_of_the_users_that_is_linked_among_the_libraries_is_theirs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    libraries, own = tmp_path / "site-packages", tmp_path / "own"
    monkeypatch.setattr(reads, "_libraries", lambda: (os.path.realpath(libraries) + os.sep,))
    for folder in (libraries, own):
        folder.mkdir()
        (folder / f"in_{folder.name}.py").touch()
    (libraries / "linked.py").symlink_to(own / "in_own.py")
    (libraries / "package").symlink_to(own)

    def is_users(file: Path) -> bool:
        module = types.ModuleType("one")
        module.__file__ = str(file)
        return reads.is_users("one", module)

    assert is_users(own / "in_own.py")
    assert is_users(libraries / "linked.py")
    assert is_users(libraries / "package" / "in_own.py")
    assert not is_users(libraries / "in_site-packages.py")
