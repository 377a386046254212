"""A session goes on with another number of processes, which have its variables on meshes made anew."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ArrayError, GoneError, ProcessError, SessionError
from nbdist.session import resizing
from tests.builders.endings import kill, pids_of, without_doubt
from tests.builders.trainings import LINEAR, MESH
from tests.integration.notebook import Notebook
from tests.told import told

TRAINING = f"""{MESH}{LINEAR}rng = np.random.default_rng(0)
params = {{"w": put(rng.normal(size=(12, 4)).astype("f4"), "data", "model")}}
state = jax.jit(tx.init)(params)
data = put(np.arange(144, dtype="f4").reshape(12, 12) / 144, "data")
odd = put(np.arange(8, dtype="f4"), ("data", "model"))
key = jax.random.key(3)
def step():
    global params, state
    params, state, value = update(params, state, data)
    return float(value)
me = jax.process_index()
@nbdist.on_recover
def own():
    global rows
    rows = np.arange(24).reshape(-1, jax.process_count())[:, jax.process_index()]
own()
losses = [step() for _ in range(3)]
other = [params["w"], {{"same": data}}]
"""

MADE = ("cube", "part", "last", "lines", "mine", "more", "found")
NAMES = "params, state, data, odd, jax.random.key_data(key), other"


@pytest.fixture(scope="module")
def four() -> Iterator[Session]:
    """Four processes; whoever has resized them resizes them back."""
    with nbdist.start(4, devices_per_process=2, platform="cpu") as found:
        yield found


@pytest.fixture
def session(four: Session) -> Session:
    """Four processes that have trained, without what the test before has made."""
    if four.out_of_step:
        four.recover()
    without_doubt(four)
    four.run(f"for name in {MADE}: globals().pop(name, None)")
    if len(four.hosts) != 4:
        four.resize(4, say=[].append)
    four.run(TRAINING)
    return four


def bits(session: Session) -> list[bytes]:
    session.run(f"found = jax.tree.leaves([{NAMES}])")
    found = [np.asarray(leaf).tobytes() for leaf in session.pull("found")]
    session.run("del found")
    return found


def test_training_goes_on_on_fewer_and_on_more(session: Session) -> None:
    before, first = bits(session), pids_of(session)
    shown: list[str] = []
    session.run("odder = odd + 1")
    said = session.resize(3, say=shown.append)
    session.run("assert (jax.device_get(odder) == jax.device_get(odd) + 1).all()\ndel odder")
    assert shown == [
        "mesh data=4 × model=2 becomes data=3 × model=2",
        "what data=3 × model=2 does not divide is replicated on every device now: dimension 0 of odd (f32[8]), "
        "dimension 0 of odder (f32[8])",
    ]
    assert said.title.startswith("3 processes in place"), said
    for named in (
        "All variables are kept.",
        "me: the number of the process, on each its own",
        "rows: set again",
    ):
        assert named in told(said)
    assert bits(session) == before
    session.run(
        "assert jax.process_count() == 3 and me == jax.process_index() and len(rows) == 8\n"
        "assert dict(mesh.shape) == {'data': 3, 'model': 2}\n"
        "assert params['w'].sharding.spec == P('data', 'model') and odd.sharding.spec == P(None)\n"
        "assert other[0] is params['w'] and other[1]['same'] is data\n"
        "more = step()"
    )
    assert session.pull("more") == pytest.approx(session.pull("losses")[-1], rel=0.1)
    assert session.pull("more") < session.pull("losses")[-1]
    assert not any(map(psutil.pid_exists, first))
    assert session.history[0].outcome == "finished"
    before = bits(session)
    session.resize(6, say=shown.append)
    assert len(session.snapshot().processes) == 6
    assert bits(session) == before
    session.run("assert dict(mesh.shape) == {'data': 6, 'model': 2}\nstep()")
    # A death there is repaired as any other.
    kill(session, 5)
    assert session.recover().title.startswith("Process 5 was replaced")


def test_one_alone_and_back(session: Session) -> None:
    before = bits(session)
    session.resize(1, say=[].append)
    session.run("assert jax.device_count() == 2 and dict(mesh.shape) == {'data': 1, 'model': 2}")
    assert bits(session) == before
    said = session.resize(2, say=[].append)
    # Of one process nobody can say what was its own.
    assert "me was copied" in said.text
    # Nor is it surer on those that have it from these, though both have the same.
    session.resize(3, say=[].append)
    with pytest.raises(
        SessionError,
        match=r"(?s)it may use me\..*me was copied from process 0",
    ):
        session.run("mine = data[me]")
    session.run("me = jax.process_index()")
    assert bits(session) == before
    session.run("step()")


@pytest.mark.parametrize(
    ("code", "said"),
    [
        (
            "cube = jax.make_mesh((2, 2, 2), ('x', 'y', 'z'))\n",
            r"cube: .*x=2 × y=2 × z=2 cannot be made anew over 6 devices.* for 2, 4, 6, 8 processes of 2",
        ),
        (
            "part = jax.sharding.Mesh(np.array(jax.devices()[:4]), ('x',))\n",
            "A mesh lies on 4 of 8 devices.* nothing says where it would be among 6",
        ),
        ("last = jax.devices()[-1]\n", r"of process 3, which will not be there\. Delete it"),
    ],
    ids=["no size", "a part", "a device"],
)
def test_what_cannot_be_is_refused_and_nothing_changes(
    session: Session, code: str, said: str
) -> None:
    before, first = bits(session), pids_of(session)
    session.run(code)
    with pytest.raises(ArrayError, match=said):
        session.resize(3)
    assert pids_of(session) == first
    assert bits(session) == before


@pytest.mark.parametrize("fault", [GoneError("new process 1 has ended"), KeyboardInterrupt()])
def test_where_it_does_not_succeed_the_session_is_as_it_was(
    session: Session, monkeypatch: pytest.MonkeyPatch, fault: BaseException
) -> None:
    before, first, new = bits(session), pids_of(session), []

    def bring(before: object, now: object, *rest: object) -> None:
        new.extend(p.pid for p in now.monitor.snapshot().processes)  # type: ignore[attr-defined]
        raise fault

    with monkeypatch.context() as patch:
        patch.setattr(resizing, "bring", bring)
        with pytest.raises(type(fault)):
            session.resize(3)
    assert new and not any(map(psutil.pid_exists, new))
    assert pids_of(session) == first
    assert bits(session) == before
    session.run("step()")
    session.resize(2, say=[].append)
    session.run("step()")


def test_a_death_is_repaired_first_and_what_is_lost_stays_lost(session: Session) -> None:
    kill(session, 2)
    shown: list[str] = []
    said = session.resize(2, say=shown.append)
    assert "Process 2 was replaced" in shown[0] and "Lost with process 2: data" in shown[0], shown
    # All processes had the same names, of which none is in doubt: what has no values has none.
    assert "All variables are kept." not in told(said)
    empty = "data, odd, params['w'], state[0].mu['w'], state[0].nu['w']"
    assert f"without values, as before: {empty}" in told(said)
    with pytest.raises(ProcessError, match=r"LostArrayError.*was lost with process 2"):
        session.run("step()")
    # All that leads to them is named: nobody has them as a whole.
    assert "other (2 arrays)" in shown[0]
    session.run("assert other[1]['same'].is_deleted()")


def test_what_cannot_be_pickled_is_named_before(session: Session) -> None:
    session.run("lines = (n for n in range(3))")
    shown: list[str] = []
    session.resize(3, say=shown.append)
    assert any(line.startswith("lines (generator) is not brought along: ") for line in shown)
    with pytest.raises(ProcessError, match="NameError"):
        session.run("lines")


def test_a_kept_session_is_found_again_with_its_new_number(
    kernel: Notebook, tmp_path: Path
) -> None:
    kernel.good("%dist_init -n 2 --devices-per-process 2 --platform cpu --keep --env MINE=1")
    kernel.good("%%dist\n" + TRAINING)
    kernel.good("%dist_shutdown --leave")
    with Notebook(folder=tmp_path) as second:
        second.good("%load_ext nbdist\n%dist_init --attach last")
        # A value that another kernel has given is not written down.
        second.fails("%dist_init -n 3", "MINE")
        second.good("import os\nos.environ['MINE'] = '1'\n%dist_init -n 3")
        second.good("%dist_shutdown --leave")
    kernel.good("%dist_init --attach last")
    now = "jax.process_count(), dict(mesh.shape), len(losses)"
    kernel.shows(f"%dist print({now})", "processes 0–2   3 {'data': 3, 'model': 2} 3")
    kernel.good("%dist_shutdown")
    # The session of the other tests is there, and is not kept.
    said = kernel.bad("%dist_init --attach last").traceback.lower()
    assert "no session" in said or "kept, and none is" in said


def test_by_magic_in_a_live_session(renewed: Notebook) -> None:
    renewed.good("%dist_init -n 2 --devices-per-process 2 --platform cpu")
    renewed.good("%%dist\n" + TRAINING)
    becomes = "mesh data=2 × model=2 becomes data=3 × model=2"
    renewed.shows("%dist_init -n 3", becomes, "3 processes in place of 2")
    renewed.shows("%dist print(jax.process_count())", "processes 0–2")
    renewed.fails("%dist_init -n 3", "there are 3 already")
    renewed.fails("%dist_init -n 2 --platform cpu", "A session is running")
    renewed.fails("%dist_recover --without h9", "--without h9")
