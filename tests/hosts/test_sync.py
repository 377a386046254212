"""The user's files, variables and working folder on other hosts; and hosts that lack what is needed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist.errors import HostError, LaunchError, VersionError
from nbdist.version import __version__
from tests.hosts.left import Left
from tests.integration.notebook import Notebook
from tests.testbed.fixtures import need
from tests.testbed.hosts import ROOT, HostOptions, TestBed
from tests.testbed.possible import why_no_hosts
from tests.waiting import wait_for

SMALL_BYTES = 4 << 20
"""Of the folder for temporary files on h2."""

HOSTS = "h1:1,h2:1"
PLACE = "/root/interpreter"
"""On a host, where only its own files are."""


@pytest.fixture(scope="module")
def hosts() -> Iterator[TestBed]:
    """Two hosts; on h2 there is little room."""
    need(why_no_hosts())
    with TestBed(2, options={2: HostOptions(tmp_bytes=SMALL_BYTES)}) as bed:
        yield bed


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that no host has."""
    folder = tmp_path_factory.mktemp("project")
    (folder / "model.py").write_text("width = 1\n")
    (folder / "layers").mkdir()
    (folder / "layers" / "__init__.py").write_text("depth = 1\n")
    (folder / "data.txt").write_text("1 2 3\n")
    return folder


@pytest.fixture(scope="module")
def notebook(
    hosts: TestBed, temporary: Path, project: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Notebook]:
    """A kernel in that folder, process 0 on this machine and one on each host."""
    environment = {
        "IPYTHONDIR": str(tmp_path_factory.mktemp("ipython")),
        "JAX_ENABLE_X64": "1",
        "HUB_TOKEN": "asked for",
        "OTHER_TOKEN": "not asked for",
        "TF_API_TOKEN": "not asked for",
    }
    with Notebook(folder=project, environment=environment) as found:
        found.good("%load_ext nbdist")
        started = found.good(
            f"%dist_init --hosts localhost:1,{HOSTS} --ssh-config {hosts.ssh_config} --sync . "
            "--env HUB_TOKEN --env PYTHONHASHSEED=7"
        )
        assert "h1, h2   3 files sent" in started.text
        assert f" is the copy of {project};" in started.text
        found.good("%%dist --on 1,2\nimport os, sys, subprocess, importlib")
        yield found


def on_hosts(notebook: Notebook, expression: str) -> str:
    """What the processes on both hosts print, which must be the same."""
    text = notebook.good(f"%%dist --on 1,2\nprint({expression})").text
    assert text.startswith("processes 1, 2 "), text
    return text.removeprefix("processes 1, 2 ").strip()


def here(notebook: Notebook, expression: str) -> str:
    """What the process on this machine prints."""
    return (
        notebook.good(f"%%dist --on 0\nprint({expression})").text.removeprefix("process 0").strip()
    )


def test_modules_and_files_of_the_folder_are_there_in_the_session_folder_alone(
    notebook: Notebook, project: Path
) -> None:
    notebook.good("%%dist\nimport os, sys, subprocess, importlib, layers, model")
    read = "open('data.txt').read().strip()"
    assert on_hosts(notebook, f"model.width, layers.depth, {read}") == "1 1 1 2 3"
    inside = (
        "os.path.realpath(model.__file__).startswith(os.environ['NBDIST_LOG'].rpartition('/')[0])"
    )
    assert on_hosts(notebook, f"{inside}, os.getcwd() == os.path.dirname(model.__file__)") == (
        "True True"
    )
    started = "[sys.executable, '-c', 'import model; print(model.width)'], text=True, cwd='/'"
    assert on_hosts(notebook, f"subprocess.check_output({started}).strip()") == "1"
    # Here they are read where they are.
    assert here(notebook, "model.__file__") == str(project / "model.py")
    # ssh begins in the home folder, whose modules are not the user's of this session.
    assert on_hosts(notebook, "os.path.expanduser('~') in sys.path") == "False"


def test_variables_are_in_place_before_the_framework_is_imported_and_secrets_only_if_asked_for(
    notebook: Notebook,
) -> None:
    notebook.good("%%dist\nimport os, jax")
    assert on_hosts(notebook, "jax.numpy.arange(2.0).dtype") == "float64"
    names = ("HUB_TOKEN", "OTHER_TOKEN", "TF_API_TOKEN")
    assert on_hosts(notebook, f"[os.environ.get(n) for n in {names}]") == (
        "['asked for', None, None]"
    )
    assert here(notebook, "jax.numpy.arange(2.0).dtype, os.environ['HUB_TOKEN']") == (
        "float64 asked for"
    )
    # What counts at the start of an interpreter only, which ssh has started without it.
    seeded = subprocess.run(
        [sys.executable, "-c", "print(hash('seed'))"],
        env={**os.environ, "PYTHONHASHSEED": "7"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()
    assert [here(notebook, "hash('seed')"), on_hosts(notebook, "hash('seed')")] == [seeded] * 2


def test_what_changes_is_sent_and_modules_that_hold_the_old_are_named(
    notebook: Notebook, project: Path
) -> None:
    notebook.good("%%dist\n%load_ext autoreload\n%autoreload 0\nimport importlib, layers, model")
    (project / "model.py").write_text("width = 2\n")
    (project / "data.txt").unlink()
    (project / "new.py").write_text("there = True\n")
    notebook.good("%%dist --on 1,2\nopen('result.txt', 'w').close()")
    text = notebook.good("%dist_sync").text
    first, second = text.splitlines()
    assert first.startswith("h1, h2   2 files sent, 1 unchanged, 1 removed, ")
    assert second.startswith("already imported: model (processes 0–2); importlib.reload(model)")
    for there in (on_hosts, here):
        assert there(notebook, "model.width, importlib.reload(model).width") == "1 2"
    assert on_hosts(notebook, "importlib.import_module('new').there") == "True"
    assert on_hosts(notebook, "os.path.exists('data.txt'), os.path.exists('result.txt')") == (
        "False True"
    )
    notebook.good("%%dist\n%autoreload 2")
    (project / "layers" / "__init__.py").write_text("depth = 2\n")
    notebook.good("%dist_sync")
    assert on_hosts(notebook, "layers.depth") == "2"
    notebook.good("%%dist\n%autoreload 0")
    assert "   0 files sent, 3 unchanged, " in notebook.good("%dist_sync").text


def test_a_disk_that_is_full_keeps_what_it_has_and_is_named(
    notebook: Notebook, project: Path, hosts: TestBed
) -> None:
    (project / "model.py").write_text("width = 3\n")
    (project / "large.bin").write_bytes(os.urandom(SMALL_BYTES + 1))
    shown = notebook.bad("%dist_sync").traceback
    assert "SyncError: " in shown
    assert "host h2: No space" in shown and "h1 has the new" in shown
    assert [hosts.files_left(i, "/tmp/nbdist-*/files.new") for i in (1, 2)] == [[], []]
    read = "open(model.__file__).read().strip()"
    for process, width in ((1, 3), (2, 2)):
        text = notebook.good(f"%%dist --on {process}\nprint({read})").text
        assert text.endswith(f"width = {width}")
    (project / "large.bin").unlink()
    text = notebook.good("%dist_sync").text
    assert "h1   0 files sent, 3 unchanged, 1 removed" in text
    assert "h2   1 file sent, 2 unchanged" in text
    assert on_hosts(notebook, read) == "width = 3"


def test_an_interrupt_of_a_copying_leaves_the_session_as_good_as_before(
    notebook: Notebook, project: Path, hosts: TestBed
) -> None:
    hosts.delay(1, 150)
    try:
        # More than what lies between two hosts can hold.
        (project / "large.bin").write_bytes(os.urandom(40 << 20))
        request = notebook.send("%dist_sync")
        wait_for(lambda: hosts.files_left(1, "/tmp/nbdist-*/files.new/*"))
        notebook.interrupt()
        output = notebook.collect(request)
        assert output.error is not None and output.error[0] == "KeyboardInterrupt"
    finally:
        hosts.delay(1, 0)
    (project / "large.bin").unlink()
    text = notebook.good("%dist_sync").text
    assert text.startswith("h1, h2   0 files sent, 3 unchanged, ")
    assert "removed" not in text
    assert hosts.files_left(1, "/tmp/nbdist-*/files.new") == []


def test_when_the_session_ends_no_copy_is_left(notebook: Notebook, left: Left) -> None:
    notebook.good("%dist_shutdown")
    notebook.manager.shutdown_kernel(now=True)
    left.nothing()


# -- hosts that lack something ------------------------------------------------------------------


def start(hosts: TestBed, **options: object) -> None:
    with nbdist.start(hosts=HOSTS, ssh_config=str(hosts.ssh_config), **options):  # type: ignore[arg-type]
        pass


def test_a_working_folder_that_a_host_does_not_have_is_named_with_what_to_type(
    hosts: TestBed, left: Left, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    with pytest.raises(
        HostError,
        match=rf"Host h[12] cannot use the working folder {project}: .*with cwd, .*with sync",
    ):
        start(hosts)
    with pytest.raises(HostError, match=r"Host h[12] cannot use the working folder /nowhere: "):
        start(hosts, cwd="/nowhere", sync=".")
    left.nothing()


def test_files_for_which_a_host_has_no_room_are_the_end_of_a_start(
    hosts: TestBed, left: Left, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    (project / "large.bin").write_bytes(os.urandom(SMALL_BYTES + 1))
    with pytest.raises(
        HostError, match=r"Host h2 could not take your files \(sync\): No space left on device"
    ):
        start(hosts, sync=".")
    left.nothing()


@pytest.fixture
def interpreter(hosts: TestBed) -> Iterator[str]:
    """A Python of the same path on both hosts; a test makes that of h2 another."""
    for i in (1, 2):
        _install(hosts, i, f'exec {sys.executable} "$@"')
    yield PLACE
    for i in (1, 2):
        assert (
            hosts.exec(i, "rm", "-r", PLACE, *(["/root/other"] if i == 2 else [])).returncode == 0
        )


def _install(hosts: TestBed, i: int, command: str) -> None:
    script = f"printf '%s\\n' '#!/bin/sh' '{command}' > {PLACE} && chmod +x {PLACE}"
    done = hosts.exec(i, "sh", "-c", script)
    assert done.returncode == 0, done.stderr


def test_another_version_of_nbdist_is_named_with_its_host_and_what_to_type(
    hosts: TestBed, left: Left, interpreter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    made = hosts.exec(
        *(2, "sh", "-ec"),
        f"mkdir /root/other; cp -r {ROOT}/nbdist /root/other/nbdist; "
        "sed -i 's/__version__ = .*/__version__ = \"0.0.1\"/' /root/other/nbdist/version.py",
    )
    assert made.returncode == 0, made.stderr
    _install(hosts, 2, f'PYTHONPATH=/root/other exec {sys.executable} "$@"')
    with pytest.raises(
        VersionError,
        match=rf"Host h2 has nbdist 0.0.1, this kernel has {__version__}. On h2 run: "
        rf"pip install nbdist=={__version__}",
    ):
        start(hosts, remote_python=interpreter)


def test_a_package_that_a_host_lacks_is_named_with_the_host_and_what_to_type(
    hosts: TestBed, left: Left, interpreter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir("/")
    packages = Path(nbdist.__file__).parent, Path(pytest.__file__).parents[1]
    made = hosts.exec(
        *(2, "sh", "-ec"),
        f"mkdir /root/other; ln -s {packages[0]} {packages[1]}/* /root/other/; rm /root/other/jax*",
    )
    assert made.returncode == 0, made.stderr
    python = Path(sys.base_prefix) / "bin" / "python3"
    _install(hosts, 2, f'PYTHONPATH=/root/other exec {python} "$@"')
    with pytest.raises(
        LaunchError,
        match=r"(?s)h2: jax \S+ is missing; jaxlib .*type:.* pip install .*'?jax==",
    ):
        start(hosts, remote_python=interpreter)
