"""`nbdist rehearse --install`, with a wheel of this machine in place of the package index."""

from __future__ import annotations

import sys
import zipfile

import pytest

from nbdist import cli
from nbdist.errors import RehearsalError
from nbdist.rehearsal.plan import libtpu
from nbdist.rehearsal.plan import libtpu as installing

VERSION = "0.0.50.1"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index without packages; `add` puts the wheel into it."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_USER", "1")  # as in the configuration of some sites
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv(libtpu.VARIABLE, raising=False)
    monkeypatch.setattr(libtpu, "wanted", lambda: "0.0.50.*")
    monkeypatch.setattr(libtpu, "_installed", lambda: None)

    def add(content=b"library"):
        info = f"libtpu-{VERSION}.dist-info"
        files = {
            "libtpu/__init__.py": b"",
            "libtpu/libtpu.so": content,
            f"{info}/METADATA": f"Metadata-Version: 2.1\nName: libtpu\nVersion: {VERSION}\n".encode(),
            f"{info}/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        record = "".join(f"{name},,\n" for name in (*files, f"{info}/RECORD")).encode()
        with zipfile.ZipFile(wheels / f"libtpu-{VERSION}-py3-none-any.whl", "w") as wheel:
            for name, data in {**files, f"{info}/RECORD": record}.items():
                wheel.writestr(name, data)

    return add


def left():
    folder = libtpu.folder("0.0.50.*").parent
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def test_it_is_found_afterwards_and_not_fetched_again(index, capfd, monkeypatch):
    index()
    assert cli.main(["rehearse", "--install"]) == 0
    assert f"libtpu {VERSION} is installed: " in capfd.readouterr().out
    assert libtpu.find().version == VERSION
    assert left() == ["libtpu-0.0.50"]
    monkeypatch.setattr(installing.subprocess, "call", None)
    assert cli.main(["rehearse", "--install"]) == 0
    assert f"libtpu {VERSION} is there already" in capfd.readouterr().out


def test_of_an_install_that_fails_nothing_is_left(index, capfd):
    assert cli.main(["rehearse", "--install"]) != 0
    assert "No matching distribution found for libtpu==0.0.50.*" in capfd.readouterr().err
    assert left() == []


def test_of_one_that_is_interrupted_nothing_is_left(index, monkeypatch):
    def interrupted(command, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(installing.subprocess, "call", interrupted)
    assert cli.main(["rehearse", "--install"]) == 130
    assert left() == []


def test_what_is_broken_is_put_there_anew(index):
    index()
    folder = libtpu.folder("0.0.50.*")
    (folder / "libtpu").mkdir(parents=True)
    (folder / "libtpu" / "half").touch()
    assert installing.install() == 0
    assert libtpu.find().path.read_bytes() == b"library"


def test_a_python_without_pip_is_told_what_to_type(index, monkeypatch):
    monkeypatch.setattr(installing.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RehearsalError, match=f"{sys.executable} has no pip.*uv pip install"):
        installing.install()


def test_a_folder_that_cannot_be_made_is_named(index, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    with pytest.raises(RehearsalError, match=r"cannot be made.*XDG_CACHE_HOME"):
        installing.install()
