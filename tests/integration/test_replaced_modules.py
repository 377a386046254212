"""Modules of the user's on processes that take others' places: every number is that of an undisturbed run."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import AgreementError, SessionError
from nbdist.launch.sessions import registry
from tests.builders.endings import kill, without_doubt
from tests.told import told

SETUP = """
import sys, os, importlib, logging
sys.path.append(FOLDER)
import jax, jax.numpy as jnp, numpy as np, helped
from jax.sharding import NamedSharding, PartitionSpec as P
def total():
    mesh = jax.make_mesh((jax.device_count(),), ("d",))
    lies = NamedSharding(mesh, P("d"))
    full = jax.make_array_from_callback((12,), lies, lambda i: np.ones(12)[i])
    return float((full * helped.f()).sum())
"""

MODULE = "SCALE = 1.0\nclass Base:\n    factor = 10.0\ndef f():\n    return SCALE * Base.factor\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("modules")


@pytest.fixture(scope="module")
def session(folder: Path) -> Iterator[Session]:
    write(folder, MODULE)
    with nbdist.start(2, devices_per_process=2, platform="cpu") as found:
        found.run(f"FOLDER = {str(folder)!r}\n{SETUP}")
        yield found


def write(folder: Path, text: str) -> None:
    """Writes the module with a time of its own: two edits within one tick are one."""
    path = folder / "helped.py"
    before = path.stat().st_mtime if path.exists() else 0
    path.write_text(text)
    after = max(path.stat().st_mtime, before + 2)
    os.utime(path, (after, after))


def totals(session: Session) -> dict[int, float]:
    session.run("found = total()")
    return session.pull("found", each=True)


@pytest.mark.parametrize(
    "edited",
    [
        "SCALE = 1.0\nclass Base:\n    factor = 50.0\ndef f():\n    return SCALE * Base.factor + 1\n",
        "def f(:\n",
        None,
    ],
    ids=["edited", "no Python", "deleted"],
)
def test_a_module_whose_file_was_changed_computes_as_on_the_others(
    session: Session, folder: Path, edited: str | None
) -> None:
    session.run("helped.SCALE = 3.0\nhelped.new = {'a': [helped.SCALE]}")
    assert totals(session) == {0: 360.0, 1: 360.0}
    kill(session, 1)
    try:
        if edited is None:
            (folder / "helped.py").unlink()
        else:
            write(folder, edited)
        session.recover()
        assert totals(session) == {0: 360.0, 1: 360.0}
        session.run("assert helped.new == {'a': [3.0]} and isinstance(helped.Base(), helped.Base)")
    finally:
        write(folder, MODULE)
        session.run("importlib.reload(helped)\ndel helped.new")
    assert totals(session) == {0: 120.0, 1: 120.0}


def test_autoreload_goes_on_in_a_new_process_and_after_a_resize(
    session: Session, folder: Path
) -> None:
    session.run("%load_ext autoreload\n%autoreload 2")
    kill(session, 1)
    # Before the new process has read it, and after.
    write(folder, MODULE.replace("10.0", "20.0"))
    session.recover()
    assert totals(session) == {0: 240.0, 1: 240.0}
    write(folder, MODULE.replace("10.0", "30.0"))
    assert totals(session) == {0: 360.0, 1: 360.0}
    session.resize(3, say=[].append)
    write(folder, MODULE.replace("10.0", "40.0"))
    assert totals(session) == dict.fromkeys(range(3), 480.0)
    session.resize(2, say=[].append)
    session.run("%autoreload 0")


def test_other_code_on_one_process_is_refused_with_check(session: Session) -> None:
    session.run("def other():\n    return 7.0\nhelped.g = other", on="1")
    session.run("helped.g = None", on="0")
    with pytest.raises(AgreementError, match="the code of module helped differs: digest"):
        session.run("found = total()", check=True)
    session.run("del helped.g")
    session.run("found = total()", check=True)


def test_what_each_process_has_of_its_own_is_named_and_a_cell_that_computes_is_not_run(
    session: Session,
) -> None:
    session.resize(3, say=[].append)
    session.run(
        "helped.RANK = jax.process_index()\nos.environ['OWN_RANK'] = str(jax.process_index())\n"
        "import threading\nhelped.lock = threading.Lock()"
    )
    kill(session, 1)
    with pytest.raises(SessionError, match=r"not run: it may use .*helped\.RANK") as e:
        session.run("found = total() * helped.RANK")
    assert re.search(
        "Not the same on all .*: environment variable OWN_RANK, helped.RANK", str(e.value)
    )
    session.run("helped.RANK = jax.process_index()")
    session.run("assert os.environ.get('OWN_RANK') is None", on="1")
    gone = "del helped.RANK\nvars(helped).pop('lock', None)"
    with pytest.raises(SessionError, match="was copied from process"):
        session.run(gone)
    session.run(gone)


def test_other_code_on_two_that_live_on_refuses_a_cell_that_may_call_it(session: Session) -> None:
    """Of three processes, as the test before has left them."""
    before = totals(session)
    for value, on in ((7.0, "0,1"), (8.0, "2")):
        session.run(f"def g():\n    return {value}\nhelped.g = g\ndel g", on=on)
    kill(session, 1)
    with pytest.raises(SessionError, match="not run: it may use code of helped"):
        session.run("found = total() * helped.g()")
    session.run("vars(helped).pop('g', None)")
    assert totals(session) == before


def test_a_large_environment_of_secrets_is_brought_and_is_in_no_file_and_no_message(
    session: Session, capfd: pytest.CaptureFixture[str]
) -> None:
    session.run("os.environ |= {f'SECRET_{n}': 'hid' + f'den-{n}-value' for n in range(10_000)}")
    session.run("gone = FOLDER + '/gone'\nos.makedirs(gone, exist_ok=True)\nos.chdir(gone)\n")
    session.run("if jax.process_index() == 0: os.rmdir(gone)")
    kill(session, 1)
    said = told(session.recover())
    assert "working folder" in said
    without_doubt(session)
    session.run("found = os.environ['SECRET_9999'] == 'hid' + 'den-9999-value'")
    assert set(session.pull("found", each=True).values()) == {True}
    assert "hidden-" not in said
    assert "hidden-" not in "".join(capfd.readouterr())
    for place in (registry.folder(), Path(session._life.engines.cluster.folder)):
        files = [file for file in place.rglob("*") if file.is_file()]
        assert not [file for file in files if b"hidden-" in file.read_bytes()]
    session.run("os.chdir(FOLDER)")


def test_a_forked_child_ends_when_it_is_told_to(session: Session) -> None:
    session.run(
        "import signal, time\nchild = os.fork()\nif child == 0:\n    time.sleep(600)\n    os._exit(0)\n"
        "os.kill(child, signal.SIGTERM)\nfound = os.waitpid(child, 0)[1]",
        on="0",
    )
    assert session.pull("found", on="0") == signal.SIGTERM
