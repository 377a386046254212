"""Native stacks, read by a program that stands in for py-spy."""

from __future__ import annotations

from pathlib import Path

import pytest

from nbdist.contract.asides import NativeStacks
from nbdist.engine.cell import stacks as main_thread
from nbdist.engine.cell.stacks import native_stacks
from nbdist.session.looking import native_text


@pytest.fixture
def stand_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where a `py-spy` can be put that is found."""
    monkeypatch.setattr(main_thread.sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return tmp_path / "py-spy"


def write(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_it_reads_this_process(stand_in: Path) -> None:
    write(stand_in, 'echo "$@" | sed s/$PPID/us/')
    assert native_stacks() == NativeStacks(text="dump --native --pid us")


def test_without_py_spy_it_says_what_to_install(stand_in: Path) -> None:
    assert "pip install py-spy" in str(native_stacks().error)


def test_where_it_may_not_trace_its_own_words_are_shown(stand_in: Path) -> None:
    write(stand_in, "echo 'Permission Denied' >&2; exit 1")
    assert str(native_stacks().error).startswith("Permission Denied (py-spy needs the right")


def test_one_that_does_not_end_is_ended(stand_in: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(main_thread, "LIMIT_SECONDS", 0.1)
    write(stand_in, "exec sleep 60")
    assert "did not end" in str(native_stacks().error)


def test_equal_texts_are_shown_once_and_who_is_silent_is_named() -> None:
    text = native_text(
        {p: NativeStacks(text="a") for p in (0, 2)} | {1: NativeStacks(error="none")}, [3]
    )
    assert text.split("\n\n")[:2] == [
        "processes 0, 2\na",
        "process 1\n  no native stack: none",
    ]
    assert "process 3   no answer" in text
