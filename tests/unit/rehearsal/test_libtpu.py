"""Where libtpu is found, which one JAX wants, and how it is installed, with a wheel in place of the index."""

from __future__ import annotations

import importlib.metadata
import sys
import zipfile

import pytest

from nbdist import cli
from nbdist.errors import RehearsalError
from nbdist.rehearsal import libtpu

VERSION, WANTED = "0.0.50.1", "0.0.50.*"


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.delenv(libtpu.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(libtpu, "_installed", lambda: None)
    monkeypatch.setattr(libtpu, "wanted", lambda: WANTED)


def put(folder, version=None):
    library = folder / "libtpu" / "libtpu.so"
    library.parent.mkdir(parents=True)
    library.touch()
    if version is not None:
        (folder / f"libtpu-{version}.dist-info").mkdir()
    return library


@pytest.mark.parametrize(
    ("line", "version"),
    [
        ('libtpu==0.0.50.*; extra == "tpu"', "0.0.50.*"),
        ("libtpu==0.0.42.1 ; extra == 'tpu'", "0.0.42.1"),
        ("libtpu (==0.0.50.*)", None),
        ('numpy>=2; extra == "tpu"', None),
    ],
)
def test_the_version_is_that_of_jax_own_extra(monkeypatch, line, version):
    monkeypatch.undo()
    assert libtpu.wanted().startswith("0.0.")
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["numpy>=2", line])
    if version is not None:
        assert libtpu.wanted() == version
    else:
        with pytest.raises(RehearsalError, match="which libtpu it needs"):
            libtpu.wanted()


def test_it_is_found_in_its_folder_and_before_that_where_the_variable_says(monkeypatch, tmp_path):
    with pytest.raises(RehearsalError, match=r"nbdist rehearse --install, .*libtpu 0\.0\.50\.\*"):
        libtpu.find()
    library = put(libtpu.folder(WANTED), VERSION)
    assert libtpu.find() == libtpu.Libtpu(path=library, version=VERSION)
    named = put(tmp_path / "other", "0.0.50.2")
    monkeypatch.setenv(libtpu.VARIABLE, str(named))
    assert libtpu.find().path == named
    monkeypatch.setenv(libtpu.VARIABLE, str(put(tmp_path / "built")))
    assert libtpu.find().version is None
    monkeypatch.setenv(libtpu.VARIABLE, str(tmp_path / "gone.so"))
    with pytest.raises(RehearsalError, match=r"gone\.so, which is no file"):
        libtpu.find()


def test_a_wrong_one_that_is_installed_does_not_hide_the_one_in_the_folder(monkeypatch, tmp_path):
    wrong = libtpu.Libtpu(path=put(tmp_path / "site", "0.0.41"), version="0.0.41")
    monkeypatch.setattr(libtpu, "_installed", lambda: wrong)
    with pytest.raises(RehearsalError, match=r"libtpu 0\.0\.41 "):
        libtpu.find()
    library = put(libtpu.folder(WANTED), VERSION)
    assert libtpu.find().path == library


@pytest.mark.parametrize("version", ["0.0.42.1", "0.0.5", "0.0.500"])
def test_another_version_is_named_with_that_of_jax(monkeypatch, tmp_path, version):
    monkeypatch.setenv(libtpu.VARIABLE, str(put(tmp_path / "other", version)))
    jax = importlib.metadata.version("jax")
    said = rf"libtpu {version} \(.* JAX {jax}, .* libtpu 0\.0\.50\.\*.* unset TPU_LIBRARY_PATH"
    with pytest.raises(RehearsalError, match=said):
        libtpu.find()


def test_a_process_that_loads_it_locks_no_tpu_and_asks_no_server(tmp_path):
    variables = libtpu.variables(libtpu.Libtpu(path=tmp_path, version=None))
    assert variables["ALLOW_MULTIPLE_LIBTPU_LOAD"] == variables["TPU_SKIP_MDS_QUERY"] == "1"


@pytest.fixture
def index(tmp_path, monkeypatch):
    """An index without packages; `add` puts the wheel into it."""
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(wheels))
    monkeypatch.setenv("PIP_USER", "1")  # as in the configuration of some sites

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
    folder = libtpu.folder(WANTED).parent
    return [path.name for path in folder.iterdir()] if folder.exists() else []


def test_what_is_installed_is_found_and_not_fetched_again(index, capfd, monkeypatch):
    index()
    half = libtpu.folder(WANTED) / "libtpu" / "half"  # of a broken one, which is put there anew
    half.parent.mkdir(parents=True)
    half.touch()
    assert cli.main(["rehearse", "--install"]) == 0
    assert f"libtpu {VERSION} is installed: " in capfd.readouterr().out
    assert libtpu.find().version == VERSION
    assert libtpu.find().path.read_bytes() == b"library"
    assert left() == ["libtpu-0.0.50"] and not half.exists()
    monkeypatch.setattr(libtpu.subprocess, "call", None)
    assert cli.main(["rehearse", "--install"]) == 0
    assert f"libtpu {VERSION} is there already" in capfd.readouterr().out


def test_of_an_install_that_fails_or_is_interrupted_nothing_is_left(index, capfd, monkeypatch):
    assert cli.main(["rehearse", "--install"]) not in (0, 130)
    assert "libtpu==0.0.50.*" in capfd.readouterr().err
    assert left() == []

    def interrupted(command, **_):
        raise KeyboardInterrupt

    monkeypatch.setattr(libtpu.subprocess, "call", interrupted)
    assert cli.main(["rehearse", "--install"]) == 130
    assert left() == []


def test_what_an_install_lacks_is_named_with_what_to_type(index, tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with monkeypatch.context() as changed:
        changed.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
        with pytest.raises(RehearsalError, match=r"cannot be made.*XDG_CACHE_HOME"):
            libtpu.install()
    monkeypatch.setattr(libtpu.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(RehearsalError, match=f"{sys.executable} has no pip.*uv pip install"):
        libtpu.install()
