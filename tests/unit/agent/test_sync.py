"""Folders of modules that processes get beside those they have."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator

import pytest

from nbdist.agent.sync import put_on_path


@pytest.fixture
def clean_path(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("PYTHONPATH", "/others")
    yield


def test_folders_of_modules_come_first_also_for_what_a_process_starts(clean_path: None) -> None:
    put_on_path(["/one", "/two"])
    assert sys.path[:2] == ["/one", "/two"]
    assert os.environ["PYTHONPATH"] == os.pathsep.join(["/one", "/two", "/others"])
    put_on_path([])
    assert sys.path[:2] == ["/one", "/two"]
