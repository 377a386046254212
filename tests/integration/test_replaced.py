"""Processes that end are replaced: training goes on with the numbers of an undisturbed run."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ProcessError, SessionError
from nbdist.session.recovery import repair
from tests.builders.endings import kill, pid_of, without_doubt
from tests.builders.trainings import LAYERS, MESH
from tests.told import told
from tests.variants import cases
from tests.waiting import wait_for

PROCESSES = 3
NUMBERS = {p: p for p in range(PROCESSES)}

SETUP = f"""{MESH}{LAYERS}import os, threading
def new():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(8, 16)).astype("f4"), rng.normal(size=(16, 1)).astype("f4")
    weights = {{"a": put(a, None, "model"), "b": put(b)}}
    return weights, jax.jit(tx.init)(weights)
def new_own():
    return jax.random.key(3), jax.device_put(np.arange(3.0))
key, mine = new_own()
lock, file = threading.Lock(), open(os.devnull)
here = jax.sharding.Mesh(np.array(jax.local_devices()), ("x",))
"""


RENEW = """
@nbdist.on_recover
def renew():
    global key, mine, me
    key, mine = new_own()
    me = jax.process_index()
"""


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    found = nbdist.start(processes=PROCESSES, devices_per_process=2, platform="cpu")
    with found:
        found.run(SETUP)
        yield found


@pytest.fixture
def undisturbed(session: Session) -> list[float]:
    """The losses of six steps; then all is as before the first."""
    session.run("me = jax.process_index()")
    session.run("whole = put(np.arange(12.0), 'data')")
    session.run("done = 0\nweights, state = new()\nundisturbed = train(6)")
    session.run("done = 0\nweights, state = new()\nlosses = []")
    return [float(loss) for loss in session.pull("undisturbed")]


def trains_on(session: Session, undisturbed: list[float], steps: int) -> None:
    """The losses of these steps, and of those before, are those of an undisturbed run."""
    session.run(f"losses += train({steps})")
    assert session.pull("losses") == undisturbed


@pytest.mark.parametrize("lost", cases(*range(PROCESSES)))
def test_training_goes_on_with_the_losses_of_an_undisturbed_run(
    session: Session, undisturbed: list[float], lost: int, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run("losses += train(2)")
    before = pid_of(session, lost)
    kill(session, lost)
    capsys.readouterr()
    session.run("losses += train(2)")
    said = capsys.readouterr().out
    assert f"Process {lost} was replaced" in said and f"Lost with process {lost}: whole" in said
    why = session.why()
    assert why is not None and why.lost == ("whole",)
    assert f"process {lost} (before: killed by signal 9 (SIGKILL))" in told(why)
    assert "whole (f32[12])" in told(why)
    assert pid_of(session, lost) != before
    trains_on(session, undisturbed, 2)
    assert session.pull("me", each=True) == NUMBERS


def test_what_a_process_has_of_its_own_is_made_of_its_own_devices(
    session: Session, undisturbed: list[float]
) -> None:
    kill(session, 1)
    session.run("assert here.devices.flat[0] in jax.local_devices()")
    session.run("assert mine.devices() <= set(jax.local_devices()) and mine.sum() == 3")
    session.run("assert jax.random.key_data(key).tolist() == [0, 3]")


def test_what_cannot_go_along_is_named(session: Session, undisturbed: list[float]) -> None:
    # The one before may have had neither: one that was replaced has none.
    session.run("lock, file = threading.Lock(), open(os.devnull)")
    kill(session, 2, signal.SIGSEGV)
    done = session.recover()
    assert re.search("Not brought to process 2: .*lock", done.text)
    assert "lock (lock): TypeError: " in told(done) and "file (TextIOWrapper): " in told(done)
    assert "killed by signal 11 (SIGSEGV)" in told(done)


BROKEN = """
class Scaled:
    def __setstate__(self, state):
        self.value = state["value"] * SCALE
class Two(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} {two}")
class Opens:
    def __setstate__(self, state):
        self.file = open(state["path"])
scaled, SCALE, opens = Scaled(), 1, Opens()
scaled.value, opens.path = 7, "/nbdist/is/gone"
two, held, after_it = Two("a", "b"), np.arange(1 << 16), {"a": 3}
two.held = held
also = held
"""


def test_what_cannot_be_made_on_the_new_process_is_named_and_costs_nothing_else(
    session: Session, undisturbed: list[float]
) -> None:
    session.run(BROKEN)
    kill(session, 1)
    done = told(session.recover())
    for named in (r"opens \(Opens\).*FileNotFoundError: ", r"two \(Two\).*TypeError: "):
        assert re.search(named, done), done
    assert "scaled" not in done and "held" not in done and "after_it" not in done
    session.run("assert scaled.value == 7 and also is held and held[-1] == 65535, scaled.value")
    trains_on(session, undisturbed, 6)


def test_what_an_object_of_c_holds_is_named_and_no_later_repair_fails_for_it(
    session: Session, undisturbed: list[float]
) -> None:
    session.run("import itertools\nheld, error = itertools.repeat(mine), ValueError(mine)")
    kill(session, 2)
    why = "PicklingError: an array from before a repair: make it again"
    assert re.search(rf"held \(repeat\).*{why}", told(session.recover()))
    kill(session, 1)
    said = told(session.recover())
    assert "held" in said
    assert "error (ValueError)" not in said
    without_doubt(session)
    session.run("assert error.args[0] is mine and mine.sum() == 3")
    trains_on(session, undisturbed, 6)
    session.run("held = None")


def test_a_thread_that_computes_by_itself_stops_no_repair_and_goes_on(
    session: Session, undisturbed: list[float]
) -> None:
    session.run(
        "import time\nstop, rounds, double = threading.Event(), [0], jax.jit(lambda x: x * 2)\n"
        "def compute():\n    while not stop.wait(0.01):\n"
        "        assert double(np.ones(2)).sum() == 4\n        rounds[0] += 1\n"
        "busy = threading.Thread(target=compute)\nbusy.start()"
    )
    kill(session, 1)
    assert session.recover().code == "repaired"
    without_doubt(session)
    session.run(
        "if jax.process_index() != 1:\n    before = rounds[0]\n"
        "    while rounds[0] < before + 3: assert busy.is_alive(); time.sleep(0.01)\n"
        "    stop.set(); busy.join()"
    )
    trains_on(session, undisturbed, 6)
    session.run("stop = busy = rounds = before = None")


def test_devices_of_all_processes_are_those_of_all_on_a_new_one(
    session: Session, undisturbed: list[float]
) -> None:
    session.run(
        "every, own = jax.devices(), jax.local_devices()\nagain, pair = every, tuple(every)\n"
        "by_id, grid = {d.id: d for d in every}, np.array(every).reshape(-1, 2)"
    )
    kill(session, 1)
    assert session.recover().code == "repaired"
    names = {"every", "own", "again", "pair", "by_id", "grid"}
    assert names.isdisjoint(session._life.engines.health.facts.unsure)
    session.run(
        "assert every == jax.devices() and again is every and pair == tuple(every), every\n"
        "assert by_id == {d.id: d for d in every} and (grid.ravel() == every).all(), by_id\n"
        "assert own == jax.local_devices(), own"
    )


def test_one_that_ends_in_a_cell_takes_no_value_along_that_all_have(
    session: Session, undisturbed: list[float]
) -> None:
    session.run("losses += train(3)")
    with pytest.raises(ProcessError, match="killed by signal 9") as raised:
        session.run(
            "if jax.process_index() == 0: os.kill(os.getpid(), 9)\nfloat(weights['b'].sum())"
        )
    assert re.search(
        r"memory \d+ MB when it last reported, .* before its end; ", told(raised.value)
    )
    # On two devices, whole on one dimension: the bytes of its pieces on both.
    assert "weights['a'] (f32[8, 16]) 512 B" in told(raised.value)
    trains_on(session, undisturbed, 3)


def test_two_at_once(session: Session, undisturbed: list[float]) -> None:
    session.run("losses += train(3)")
    session.run(RENEW)
    for process_id in (0, 2):
        os.kill(pid_of(session, process_id), signal.SIGKILL)
    wait_for(lambda: len(session._life.engines.facts.lost) == 2)
    trains_on(session, undisturbed, 3)
    assert session.pull("me", each=True) == NUMBERS


@pytest.mark.parametrize("when", cases("bring", "start_again", "wait_for_service"))
def test_another_that_ends_in_the_middle_of_a_repair_is_replaced_as_well(
    session: Session,
    undisturbed: list[float],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    when: str,
) -> None:
    """Before the others have left their back ends, when all are about to meet again, and when they have met."""
    session.run("losses += train(3)")
    session.run(RENEW)
    pids = [pid_of(session, 2)]
    owner, name = (repair.initialize if when == "wait_for_service" else repair), when
    does = getattr(owner, name)

    def killing(*arguments: object, **options: object) -> object:
        if pids:
            os.kill(pids.pop(), signal.SIGKILL)
            wait_for(lambda: 2 in session._life.engines.cluster.exits)
        return does(*arguments, **options)

    monkeypatch.setattr(owner, name, killing)
    kill(session, 1)
    trains_on(session, undisturbed, 3)
    assert session.pull("me", each=True) == NUMBERS
    said = told(session.why())
    assert re.search(r"the repair begins again: process 2 .*killed by signal 9", said), said
    assert "Processes 1, 2 were replaced" in said


def test_a_hook_is_called_on_the_new_process_alone(session: Session) -> None:
    session.run(
        "called = 0\n@nbdist.on_recover\ndef open_again():\n    global called, file\n"
        "    called += 1\n    file = open(os.devnull)"
    )
    kill(session, 1)
    session.run("assert file.name == os.devnull", on="1")
    assert session.pull("called", each=True) == {0: 0, 1: 1, 2: 0}
    session.run("@nbdist.on_recover\ndef open_again():\n    1 / 0")
    kill(session, 1)
    done = told(session.recover())
    assert re.search("open_again .* process 1.*ZeroDivisionError", done, re.DOTALL), done


PART = "part = np.arange(12)[jax.process_index() :: 3]"


def test_what_is_each_process_s_own_is_used_only_when_it_is_set_again(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(f"called = 0\n{PART}")
    kill(session, 1)
    with pytest.raises(SessionError, match=r"not run: it may use part\.") as e:
        session.run("found = part.sum()")
    assert "Process 1 was replaced" in str(e.value)
    assert str(e.value).count("part was copied") == 1
    session.run(PART)
    session.run("found = int(part.sum())")
    assert session.pull("found", each=True) == {0: 18, 1: 22, 2: 26}
    kill(session, 0)
    with pytest.raises(SessionError, match="found, part were copied from process 1"):
        session.run("found = int(part.sum())")
    session.run("found = int(part.sum())")  # as it is
    assert session.pull("found", each=True) == {0: 22, 1: 22, 2: 26}
    session.run("part, other = None, jax.process_index() * 2\nfound = 0")
    session.run("rest = jax.process_index() + 5")
    kill(session, 1)
    for name in ("other", "rest"):
        # What was said of one is not said of the other.
        session.run(f"print({name})")
        said = rf"\b{name}\b.* copied from process 2\."
        assert len(re.findall(said, capsys.readouterr().out)) == 1
        with pytest.raises(SessionError, match=f"{name} was copied from process 2"):
            session.run(f"found = {name} + 1")
    session.run(f"other, rest, found = 0, 0, 0\n{PART}")


@pytest.mark.parametrize(
    "stuck",
    cases(
        "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])\n    time.sleep(600)",
        "os.kill(os.getpid(), signal.SIGSTOP)",
    ),
    ids=["deaf", "stopped"],
)
def test_one_that_no_interrupt_reaches_is_ended_and_replaced_when_that_is_asked_for(
    session: Session, stuck: str
) -> None:
    session.run("import signal, time\nme = jax.process_index()\nkept = 41\nfound = None")
    before = pid_of(session, 2)
    with pytest.raises(ProcessError, match="Process 1 raised ValueError"):
        session.run(
            f"if me == 2:\n    {stuck}\nif me == 1:\n    raise ValueError('first')", grace_s=1
        )
    assert session.out_of_step
    # Nothing is ended that nobody has asked for.
    assert psutil.pid_exists(before)
    done = session.recover()
    assert done.title.startswith("Process 2 was replaced")
    assert "process 2 (before: did not stop" in told(done)
    assert not psutil.pid_exists(before)
    session.run("kept += 1\ntotal = float(put(np.arange(6.0), 'data').sum())")
    assert session.pull("kept", each=True) == {0: 42, 1: 42, 2: 42}
    # Where it saved its arrays before it was ended, they stay for whoever needs them.
    for saved in Path(tempfile.gettempdir()).glob(f"nbdist-rescued-{before}-*"):
        shutil.rmtree(saved)


def test_of_two_processes_names_are_known_to_be_the_same_by_what_was_reported() -> None:
    with nbdist.start(processes=2, devices_per_process=1, platform="cpu") as two:
        two.run("import os, jax, numpy as np\nme = jax.process_index()\nseed = 3 + me\nn = 1")
        two.run("data = np.arange(1000)\npart = data[me::2]\nkey = jax.random.key(1)")
        two._look()  # what was set last is reported a moment later
        kill(two, 1)
        with pytest.raises(SessionError) as refused:
            two.run("data.sum(), part, key, seed, n")
        # The key as well where one of the two was not read any more before the death.
        assert re.search(r" (key, )?part, seed were copied", str(refused.value))
        assert two.pull("me", each=True) == {0: 0, 1: 1}
        assert two.pull("n", each=True) == {0: 1, 1: 1}
