"""Arrays outlive a process that alone had a part of them, and a step that not all have taken, as copies."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import OptionError, ProcessError, SessionError
from tests.builders.endings import kill
from tests.builders.trainings import LAYERS, MESH
from tests.told import told
from tests.variants import cases

PROCESSES = 3

SETUP = f"""{MESH}{LAYERS}import os
def new():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(6, 16)).astype("f4"), rng.normal(size=(16, 1)).astype("f4")
    weights = {{"a": put(a, "data", "model"), "b": put(b)}}
    return weights, jax.jit(tx.init)(weights), 0
rows = put(np.arange(24.0).reshape(6, 4), "data")
key = jax.jit(lambda: jax.random.split(jax.random.key(3), 6), out_shardings=NamedSharding(mesh, P("data")))()
of_key = jax.jit(lambda key: jax.random.key_data(key).sum())
"""

STEPS = 4


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with nbdist.start(
        processes=PROCESSES, devices_per_process=2, platform="cpu", copies_s=0
    ) as started:
        started.run(SETUP)
        yield started


@pytest.fixture(scope="module")
def undisturbed(session: Session) -> list[float]:
    """The losses of the first and the next steps, on all processes alike."""
    session.run("weights, state, done = new()\nlosses = train(8)")
    found: list[float] = session.pull("losses")
    return found


def no_more_copies(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for those after a repair."""
    copies = session._life.engines.copies
    monkeypatch.setattr(copies, "every_s", 1e9)
    monkeypatch.setattr(copies, "_next", float("inf"))


@pytest.fixture
def trained(session: Session, undisturbed: list[float]) -> Callable[[], None]:
    """Has taken `STEPS` steps; what is given goes on from there, and compares the losses."""
    session.run(f"weights, state, done = new()\nlosses = train({STEPS})")

    def goes_on() -> None:
        # What counts steps is no array.
        session.run(f"done = {STEPS}\nlosses = train({len(undisturbed) - STEPS})")
        assert session.pull("losses") == undisturbed[STEPS:]

    return goes_on


@pytest.fixture
def said_by(session: Session, capsys: pytest.CaptureFixture[str]) -> Callable[[str], str]:
    """Runs a cell that fails; answers what is said of it, also by the next."""

    def said(code: str) -> str:
        capsys.readouterr()
        with pytest.raises(ProcessError) as failed:
            session.run(code)
        session.run("pass")
        return told(failed.value) + capsys.readouterr().out

    return said


@pytest.mark.parametrize("victim", cases(0, 2))
def test_what_has_not_changed_since_is_there_as_before(
    session: Session, victim: int, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run("kept = rows.sum()\nhalves = of_key(key)")
    before = session.pull("halves")
    kill(session, victim)
    session.run("again = rows.sum()\nhalves = of_key(key)")
    assert (session.pull("rows") == session.pull("np.arange(24.0).reshape(6, 4)")).all()
    assert session.pull("again") == session.pull("kept") == 276.0
    assert session.pull("halves") == before
    out = capsys.readouterr().out
    assert "lost:" not in out and "as they were" not in out, out


def test_training_goes_back_together_to_the_last_copies(
    trained: Callable[[], None], said_by: Callable[[str], str]
) -> None:
    said = said_by(
        "train(2)\nif jax.process_index() == 1: os.kill(os.getpid(), 9)\ntrain(2)",
    )
    again = re.search(r"Restored as they were after cell \d+, .+ ago: (.+?)\.\s", said)
    assert again, said
    assert "Process 1 was replaced" in said, said
    assert all(name in said for name in ("state[0].mu['a']", "weights['a']", "weights['b']"))
    assert "rows" not in again[1]
    trained()


def test_a_cell_that_may_count_on_what_went_back_between_cells_is_not_run(
    session: Session, trained: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_more_copies(session, monkeypatch)
    session.run("train(2)")
    kill(session, 1)
    said = r"(?s)may use state, weights\..*s they were after cell \d+.*Set your step counters"
    with pytest.raises(SessionError, match=said):
        session.run("losses = train(1)")
    assert session.pull("done") == STEPS + 2
    trained()


def test_without_a_death_as_well(
    trained: Callable[[], None], said_by: Callable[[str], str]
) -> None:
    said = said_by(
        "x = put(np.ones((6, 6), np.float32), 'data')\n"
        "weights, state, value = step(weights, state, x)\n"
        "if jax.process_index() == 1: raise ValueError('alone')\n"
        "weights, state, value = step(weights, state, x)\nfloat(value)",
    )
    assert "weights['a']" in said.partition("Restored as they were")[2], said
    trained()


AVERAGE = """
import collections
def averaged():
    mean = weights["b"]
    def take():
        nonlocal mean
        mean = 0.9 * mean + 0.1 * weights["b"]
    return take
take, last = averaged(), collections.deque([weights["b"]], maxlen=1)
"""


def test_what_no_path_leads_to_stays_as_it_is_and_is_named(
    session: Session, said_by: Callable[[str], str]
) -> None:
    session.run(f"weights, state, done = new()\ntrain(1){AVERAGE}take()")
    said = said_by(
        "train(1)\ntake()\nlast.append(2 * weights['b'])\nbatch = put(np.ones((6, 6), np.float32), 'data')\n"
        "if jax.process_index() == 1: raise ValueError('alone')\n"
        "weights, state, value = step(weights, state, batch)\nfloat(value)",
    )
    assert "weights['b']" in said.partition("Restored as they were")[2], said
    newer = said.partition("Newer than that: ")[2].partition(".\n")[0].split(", ")
    assert {"last (through a deque)", "take (through a cell)", "batch"} <= {*newer}, said
    assert "weights" not in str(newer) and "rows" not in newer
    session.run("del batch")


def test_what_has_not_gone_back_between_cells_is_in_doubt(
    session: Session, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run(f"weights, state, done = new()\ntrain(1){AVERAGE}")
    no_more_copies(session, monkeypatch)
    session.run("train(1)\ntake()")
    kill(session, 1)
    said = r"(?s)take has changed since cell \d+, and did not go back to it\..*Set take again"
    with pytest.raises(SessionError, match=said):
        session.run("take()")
    assert "last" not in capsys.readouterr().out.partition("Newer than that")[2]
    session.run("del take, last")


def test_another_death_before_the_next_copies_loses_no_more(
    session: Session, trained: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    no_more_copies(session, monkeypatch)
    for victim in (1, 0):
        session.run("train(1)")
        kill(session, victim)
        with pytest.raises(SessionError, match="was not run"):
            session.run("train(1)")
        session.run(f"done = {STEPS}")
    trained()


def test_what_each_process_had_of_its_own_alike_goes_back_with_what_became_of_it(
    session: Session, undisturbed: list[float], said_by: Callable[[str], str]
) -> None:
    """What an optimizer begins with lies on each process alone; after a step it is divided as the weights are."""
    session.run("weights, state, done = new()")
    alone = session.pull("state[0].mu['a'].is_fully_addressable", each=True)
    assert alone == dict.fromkeys(range(PROCESSES), True)
    said = said_by("train(2)\nif jax.process_index() == 1: os.kill(os.getpid(), 9)\ntrain(2)")
    again = said.partition("Restored as they were")[2]
    assert all(name in again for name in ("state[0].mu['a']", "state[0].count", "weights['a']"))
    assert "lost:" not in said
    session.run(f"done = 0\nlosses = train({len(undisturbed)})")
    assert session.pull("losses") == undisturbed


def test_what_each_process_has_of_its_own_and_differs_is_no_part_of_a_round(
    session: Session, said_by: Callable[[str], str]
) -> None:
    session.run("mine = jnp.full(6, float(jax.process_index()))\nsame = jnp.full(6, 7.0)")
    said = said_by(
        "by_rows = NamedSharding(mesh, P('data'))\n"
        "def divided(x): return jax.make_array_from_callback(x.shape, by_rows, lambda i: np.asarray(x[i]))\n"
        "mine, same = divided(mine) + 1, divided(same) + 1\n"
        "if jax.process_index() == 1: os.kill(os.getpid(), 9)\nfloat(mine.sum() + same.sum())"
    )
    assert (
        re.search("Lost [^:]*: mine", said) and "same" in said.partition("Restored as they were")[2]
    ), said
    session.run("total = float(same.sum())")
    assert session.pull("total") == 42.0
    session.run("del mine, same")


def test_what_was_made_since_and_is_lost_is_named(
    session: Session, monkeypatch: pytest.MonkeyPatch, said_by: Callable[[str], str]
) -> None:
    session.run("del weights, state")
    no_more_copies(session, monkeypatch)
    session.run("late = put(np.arange(6.0), 'data')")
    said = said_by("if jax.process_index() == 1: os.kill(os.getpid(), 9)\nlate.sum()")
    assert re.search("Lost [^:]*: late", said) and "Restored as they were" not in said


NNX = """from flax import nnx
for name in ("weights", "state", "rows", "key", "x"): globals().pop(name, None)  # what is divided
class Net(nnx.Module):
    def __init__(self, rngs):
        self.a, self.b = nnx.Linear(4, 8, rngs=rngs), nnx.Linear(8, 1, rngs=rngs)
    def __call__(self, x):
        return self.b(jnp.tanh(self.a(x)))
def begin():
    model = Net(nnx.Rngs(0))
    opt = nnx.Optimizer(model, tx, wrt=nnx.Param)
    for one in (model, opt):
        nnx.update(one, put(nnx.state(one)))
    return model, opt
@nnx.jit
def learn(model, opt, x):
    value, grads = nnx.value_and_grad(lambda model: (model(x) ** 2).mean())(model)
    opt.update(model, grads)
    return value
def fit(numbers):
    return [float(learn(model, opt, put(np.full((6, 4), n + 1.0, np.float32), "data"))) for n in numbers]
"""


def test_what_each_process_has_as_a_whole_goes_back_where_one_has_not_taken_the_step(
    session: Session, said_by: Callable[[str], str]
) -> None:
    """Nothing of it is lost with a process, so that it is copied for nobody else."""
    session.run(f"{NNX}model, opt = begin()\nlosses = fit(range(8))")
    losses = session.pull("losses")
    session.run(f"model, opt = begin()\nfit(range({STEPS}))")
    said = said_by(
        "x = put(np.ones((6, 4), np.float32), 'data')\nlearn(model, opt, x)\n"
        "if jax.process_index() == 1: raise ValueError('alone')\nlearn(model, opt, x)",
    )
    again = said.partition("Restored as they were")[2]
    assert "model.a.kernel" in again and "lost:" not in said, said
    session.run(f"losses = fit(range({STEPS}, 8))")
    assert session.pull("losses") == losses[STEPS:]
    session.run("del model, opt, x")


def test_the_status_says_how_old_they_are_and_what_they_take(session: Session) -> None:
    session.run("big = put(np.zeros((6, 1 << 16), np.float32), 'data')")
    assert re.search(
        r"copies of \d+ arrays?, made after cell \d+, .+ ago, in [\d.]+ s: .*1 MB.* on each process",
        session.status(),
    ), session.status()
    session.run("del big")


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"copies_s": -1}, "must be 0 or more seconds"),
        ({"copies_s": float("nan")}, "must be 0 or more seconds"),
        ({"copies_s": 30, "framework": "tensorflow"}, "TensorFlow keep no copies"),
        ({"copies_s": 30, "framework": "keras", "backend": "torch"}, "torch keep no copies"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_starts(
    options: dict[str, Any], why: str
) -> None:
    with pytest.raises(OptionError, match=f"copies_s.*{why}"):
        nbdist.start(processes=2, **options)
