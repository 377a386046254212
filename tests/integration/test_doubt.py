"""Each value of a process that was replaced is what it was, or in doubt, or named: none is silently another's."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ProcessError, SessionError
from tests.builders.endings import kill, without_doubt
from tests.integration.doubtful import KINDS, SAME, SETUP
from tests.told import told
from tests.waiting import wait_for

FAILING = """
for turn in range(4):
    if me == 1 and turn == 2: raise ValueError
    step_no += 1
    key, lr = jax.random.split(key)[0], lr / 2
    loader.take(), next(rows), np.random.random()
"""

FOLDED = "jax.random.key_data(w).addressable_shards[0].data.tolist()"

NAMED = re.compile(r"\w+")


@pytest.fixture(scope="module", params=[2, 3])
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    """Each process has values of its own of all kinds."""
    with nbdist.start(processes=request.param, devices_per_process=1, platform="cpu") as found:
        found.run(SETUP)
        yield found


def values(of: str) -> str:
    """Code that sets `found` to what each name holds, as text; of a value that raises, that it does."""
    lines = ["found = {}"]
    for name, (_, shown) in KINDS.items():
        lines += [
            f"try:\n    x = {of.format(name=name)}\n    found[{name!r}] = repr({shown})",
            f"except Exception as e:\n    found[{name!r}] = 'raised ' + type(e).__name__",
        ]
    return "\n".join([*lines, "del x"])


def looked_at(session: Session) -> None:
    """Waits until all processes have reported what their names hold after the same cell of now."""
    engines = session._life.engines
    session.run("pass")

    def is_older(process_id: int) -> bool:
        newest = max(engines.monitor.samples(process_id), default=0)
        return engines.facts.has_left(process_id, newest + 1)

    wait_for(lambda: not any(map(is_older, engines.facts.workers)))


def replaced(session: Session) -> str:
    """Has process 1 ended and another take its place; answers what is said."""
    kill(session, 1)
    return told(session.recover())


def test_no_value_is_silently_that_of_another_process(session: Session) -> None:
    made = {**{name: expression for name, (expression, _) in KINDS.items()}, **SAME}
    session.run("\n".join(f"{name} = {expression}" for name, expression in made.items()))
    session.run("if me == 0: lead_only = 5")
    session.run("\n".join(f"fresh_{name} = {made[name]}" for name in KINDS))
    session.run(values("fresh_{name}"))
    wanted = session.pull("found", on="1")
    session.run("del found, " + ", ".join(f"fresh_{name}" for name in KINDS))
    looked_at(session)
    said = replaced(session)
    doubted = without_doubt(session)
    session.run(values("{name}"), on="1")
    found = session.pull("found", on="1")
    known = doubted | {*NAMED.findall(said)}
    silent = {n: (found[n], wanted[n]) for n in KINDS if n not in known and found[n] != wanted[n]}
    assert silent == {}
    assert doubted & {*SAME, "mesh", "adder", "Config", "Loader", "jax", "P"} == set()
    assert len(said) < 3000
    if len(session.hosts) == 3:
        assert re.search("Not on process 2, so not on process 1: lead_only", said)


def test_a_name_in_doubt_is_asked_about_wherever_it_is_used(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("rows", "width", "pulled", "summed", "hidden", "shown")
    session.run("; ".join(f"{name} = 5 + me" for name in (*names, "pushed")))
    looked_at(session)
    kill(session, 1)
    session.push({"unrelated": 1, "pushed": 5})
    session.run("assert pushed == 5")
    health = session._life.engines.health
    health.sure_of(health.facts.unsure.keys() - {*names})
    assert "Process 1 was replaced" in capsys.readouterr().out
    session.run("shown")
    source = len(session.hosts) - 1 if len(session.hosts) > 2 else 0
    assert f"copied from process {source}." in capsys.readouterr().out
    uses = {
        "rows": lambda: session.run("total = rows + 1"),
        "width": lambda: session.run("print(f'{1:{width}}')"),
        "pulled": lambda: session.pull("pulled", on="1"),
        "summed": lambda: session.pull("summed + 1", each=True),
        "hidden": lambda: session.run("import sys\nn = sys.modules['__main__'].hidden"),
    }
    for name, use in uses.items():
        with pytest.raises(SessionError, match=rf"{name}.* copied from process {source}\."):
            use()
        use()  # as it is


def test_what_a_failure_leaves_different_is_named(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run("step_no = 0; rate = 0.1; me = jax.process_index(); own = jax.random.key(me)")
    session.run("key = jax.random.key(0); lr = jax.numpy.float32(0.1); w = folded(me)")
    session.run("loader, rows = Loader(list(range(9))), batches(); np.random.seed(3)")
    session.run(f"before = ({FOLDED})")
    looked_at(session)
    capsys.readouterr()
    with pytest.raises(ProcessError) as failed:
        session.run(FAILING)
    names = "NumPy's random state, key, loader, lr, rows, step_no, turn"
    assert f"{names} now differ between the processes" in told(failed.value)
    # What was each process's own still is.
    session.run(f"assert before == ({FOLDED})\ndel before, w, own")
    session.run("step_no = 0")
    capsys.readouterr()
    with pytest.raises(ProcessError) as failed:
        session.run("1 / 0")
    assert "differ" not in told(failed.value)


def test_a_stream_of_random_numbers_is_not_silently_that_of_another_process(
    session: Session,
) -> None:
    draw = "drawn = [random.random(), float(np.random.random())]"
    session.run("random.seed(5); np.random.seed(5)")
    looked_at(session)
    assert "random state" not in replaced(session)
    session.run(draw)
    assert len({*map(tuple, session.pull("drawn", each=True).values())}) == 1
    session.run("random.seed(me); np.random.seed(me)")
    looked_at(session)
    said = replaced(session)
    names = "NumPy's random state, Python's random state"
    two = len(session.hosts) == 2
    copied, apart = (
        rf"{names}.* were copied from process 0\.",
        f"Not the same on all .*: {names}\\.",
    )
    assert re.search(copied if two else apart, said)
    assert two or f"Seed {names} again on process 1." in said
    assert "drawn" not in said
    with pytest.raises(SessionError, match=r"This cell was not run: .*NumPy's random state"):
        session.run(draw)
    session.run(draw)
