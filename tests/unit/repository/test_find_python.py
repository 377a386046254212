"""Which Python an environment is made with, on machines that have pyenv or none at all."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.places import ROOT

FIND = ROOT / "tools" / "find-python"


def found(which: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", FIND, which], env=environment, capture_output=True, text=True, check=False
    )


def python(path: Path, version: str) -> Path:
    """What answers like a Python of that version."""
    path.parent.mkdir(parents=True)
    path.write_text(
        f'#!/bin/sh\ncase "$2" in *print*) echo "$0" ;; *) [ "$3" = {version} ] ;; esac\n'
    )
    path.chmod(0o755)
    return path


@pytest.fixture
def pyenv(tmp_path):
    """A pyenv with two versions, whose shims fail; not at its usual place."""
    for shim in ("python3", "python3.13"):
        python(tmp_path / "shims" / shim / "none", "none").rename(tmp_path / shim)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "pyenv").write_text("#!/bin/sh\nexit 1\n")
    (tmp_path / "bin" / "pyenv").chmod(0o755)
    for version in ("3.11.7", "3.13.0"):
        python(tmp_path / "versions" / version / "bin" / "python", version.split(".")[1])
    return tmp_path


@pytest.mark.parametrize(("which", "version"), [("newest", "3.13.0"), ("oldest", "3.11.7")])
def test_versions_of_pyenv_are_found_beside_it_and_by_its_root(pyenv, which, version):
    expected = f"{pyenv}/versions/{version}/bin/python\n"
    beside = found(which, PATH=f"{pyenv}:{pyenv}/bin", HOME="/nowhere")
    assert (beside.returncode, beside.stdout) == (0, expected)
    rooted = found(which, PATH=str(pyenv), HOME="/nowhere", PYENV_ROOT=str(pyenv))
    assert (rooted.returncode, rooted.stdout) == (0, expected)


def test_where_none_runs_it_says_what_to_type(tmp_path):
    nothing = found("newest", PATH=str(tmp_path), HOME=str(tmp_path))
    assert (nothing.returncode, nothing.stdout) == (1, "")
    assert "make PYTHON=" in nothing.stderr
