"""Where libtpu is found, which one JAX wants, and what is said where it is another or not there."""

from __future__ import annotations

import importlib.metadata

import pytest

from nbdist.errors import RehearsalError
from nbdist.rehearsal.plan import libtpu


@pytest.fixture(autouse=True)
def nothing_installed(monkeypatch, tmp_path):
    monkeypatch.delenv(libtpu.VARIABLE, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(libtpu, "_installed", lambda: None)
    monkeypatch.setattr(libtpu, "wanted", lambda: "0.0.50.*")


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
    monkeypatch.setattr(importlib.metadata, "requires", lambda name: ["numpy>=2", line])
    if version is not None:
        assert libtpu.wanted() == version
    else:
        with pytest.raises(RehearsalError, match="does not say which libtpu"):
            libtpu.wanted()


def test_the_installed_jax_says_which(monkeypatch):
    monkeypatch.undo()
    assert libtpu.wanted().startswith("0.0.")


def test_without_it_the_error_says_what_to_type():
    with pytest.raises(
        RehearsalError, match=r"Type nbdist rehearse --install, .*libtpu 0\.0\.50\.\*"
    ):
        libtpu.find()


def test_it_is_found_where_the_install_command_puts_it():
    command = libtpu.install_command("0.0.50.*", libtpu.folder("0.0.50.*"))
    assert command[command.index("--target") + 1] == str(libtpu.folder("0.0.50.*"))
    assert command[-1] == "libtpu==0.0.50.*"
    library = put(libtpu.folder("0.0.50.*"), "0.0.50.1")
    assert libtpu.find() == libtpu.Libtpu(path=library, version="0.0.50.1")


def test_a_wrong_one_that_is_installed_does_not_hide_the_one_in_the_folder(monkeypatch, tmp_path):
    wrong = libtpu.Libtpu(path=put(tmp_path / "site", "0.0.41"), version="0.0.41")
    monkeypatch.setattr(libtpu, "_installed", lambda: wrong)
    with pytest.raises(RehearsalError, match=r"libtpu 0\.0\.41 "):
        libtpu.find()
    library = put(libtpu.folder("0.0.50.*"), "0.0.50.1")
    assert libtpu.find().path == library


def test_the_variable_comes_first(monkeypatch, tmp_path):
    put(libtpu.folder("0.0.50.*"), "0.0.50.1")
    named = put(tmp_path / "other", "0.0.50.2")
    monkeypatch.setenv(libtpu.VARIABLE, str(named))
    assert libtpu.find().path == named


def test_a_library_without_a_version_beside_it_is_taken(monkeypatch, tmp_path):
    monkeypatch.setenv(libtpu.VARIABLE, str(put(tmp_path / "built")))
    assert libtpu.find().version is None


@pytest.mark.parametrize("version", ["0.0.42.1", "0.0.5", "0.0.500"])
def test_another_version_is_named_with_that_of_jax(monkeypatch, tmp_path, version):
    monkeypatch.setenv(libtpu.VARIABLE, str(put(tmp_path / "other", version)))
    with pytest.raises(RehearsalError) as failure:
        libtpu.find()
    said = str(failure.value)
    assert f"libtpu {version} (" in said
    assert f"JAX {importlib.metadata.version('jax')}, which needs libtpu 0.0.50.*" in said
    assert "unset TPU_LIBRARY_PATH" in said


def test_a_variable_that_names_no_file_is_refused(monkeypatch, tmp_path):
    monkeypatch.setenv(libtpu.VARIABLE, str(tmp_path / "gone.so"))
    with pytest.raises(RehearsalError, match="which is no file"):
        libtpu.find()


def test_a_process_that_loads_it_locks_no_tpu_and_asks_no_server(tmp_path):
    found = libtpu.Libtpu(path=tmp_path, version=None)
    variables = libtpu.variables(found)
    assert variables["ALLOW_MULTIPLE_LIBTPU_LOAD"] == "1"
    assert variables["TPU_SKIP_MDS_QUERY"] == "1"
