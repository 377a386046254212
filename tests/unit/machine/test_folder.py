"""The private folder of a session on a host."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from nbdist.machine.folder import keep_ipython_in


@pytest.mark.parametrize(
    ("made", "there"),
    [
        ("home/.ipython/profile_default", True),
        ("home/.ipython", False),
        ("home", False),
        (".", False),
    ],
)
def test_ipython_is_given_a_place_only_where_the_home_folder_has_no_profile(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, made: str, there: bool
) -> None:
    home = tmp_path / "home"
    (tmp_path / made).mkdir(parents=True, exist_ok=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("IPYTHONDIR", "taken away below")
    monkeypatch.delenv("IPYTHONDIR")
    keep_ipython_in(str(tmp_path))
    assert os.environ.get("IPYTHONDIR") == (None if there else f"{tmp_path}/ipython")


def test_a_place_that_a_person_has_chosen_stays(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "nowhere"))
    monkeypatch.setenv("IPYTHONDIR", "/mine")
    keep_ipython_in(str(tmp_path))
    assert os.environ["IPYTHONDIR"] == "/mine"
