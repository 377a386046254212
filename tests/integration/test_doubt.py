"""Each value of a process that was replaced is what it was, or in doubt, or named: none is silently another's."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ProcessError, SessionError
from tests.integration.doubtful import KINDS, SAME, SETUP
from tests.waiting import wait_for

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
    """Waits until all processes have reported what their names hold after a cell of now."""
    monitor, workers = session._life.engines.monitor, session._life.engines.facts.workers
    before = max((run for p in workers for run in monitor.samples(p)), default=0)
    session.run("pass")
    wait_for(lambda: all(max(monitor.samples(p), default=0) > before for p in workers))


def replaced(session: Session, process_id: int) -> str:
    """Has a process ended and another take its place; answers what is said."""
    pid = session.snapshot().processes[process_id].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: session.out_of_step)
    return session.recover()


def test_no_value_is_silently_that_of_another_process(session: Session) -> None:
    made = {**{name: expression for name, (expression, _) in KINDS.items()}, **SAME}
    session.run("\n".join(f"{name} = {expression}" for name, expression in made.items()))
    session.run("if me == 0: lead_only = 5")
    session.run("\n".join(f"fresh_{name} = {made[name]}" for name in KINDS))
    session.run(values("fresh_{name}"))
    wanted = session.pull("found", on="1")
    session.run("del found, " + ", ".join(f"fresh_{name}" for name in KINDS))
    looked_at(session)
    said = replaced(session, 1)
    health = session._life.engines.health
    doubted = {*health.facts.unsure}
    health.sure_of(doubted)
    session.run(values("{name}"), on="1")
    found = session.pull("found", on="1")
    known = doubted | {*NAMED.findall(said)}
    if len(session.hosts) == 2:
        # Its copies differ although it is one array; where one alone has lived on, nobody has both.
        known.add("a_replica")
    silent = {n: (found[n], wanted[n]) for n in KINDS if n not in known and found[n] != wanted[n]}
    assert silent == {}
    assert doubted & {*SAME, "mesh", "adder", "Config", "Loader", "jax", "P"} == set()
    assert len(said) < 3000
    if len(session.hosts) == 3:
        assert "lead_only: not on process 2, so not on process 1 either" in said


def test_a_name_in_doubt_is_asked_about_wherever_it_is_used(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    names = ("rows", "width", "pulled", "summed", "hidden", "shown")
    session.run("; ".join(f"{name} = 5 + me" for name in (*names, "pushed")))
    looked_at(session)
    pid = session.snapshot().processes[1].pid
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    wait_for(lambda: session.out_of_step)
    session.push({"unrelated": 1, "pushed": 5})
    session.run("assert pushed == 5")
    health = session._life.engines.health
    health.sure_of(health.facts.unsure.keys() - {*names})
    assert "process 1 started again" in capsys.readouterr().out
    session.run("shown")
    source = len(session.hosts) - 1 if len(session.hosts) > 2 else 0
    assert f"shown was copied from process {source}. If each" in capsys.readouterr().out
    uses = {
        "rows": lambda: session.run("total = rows + 1"),
        "width": lambda: session.run("print(f'{1:{width}}')"),
        "pulled": lambda: session.pull("pulled", on="1"),
        "summed": lambda: session.pull("summed + 1", each=True),
        "hidden": lambda: session.run("import sys\nn = sys.modules['__main__'].hidden"),
    }
    for name, use in uses.items():
        with pytest.raises(SessionError, match=rf"{name}.* copied from process {source}\. If each"):
            use()
        use()  # as it is


def test_what_a_failure_leaves_different_is_named(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    session.run("step_no = 0; rate = 0.1; me = jax.process_index()")
    looked_at(session)
    capsys.readouterr()
    with pytest.raises(ProcessError):
        session.run(
            "for turn in range(4):\n    if me == 1 and turn == 2: raise ValueError\n    step_no += 1"
        )
    assert "step_no, turn differ between the processes after this cell\n" in capsys.readouterr().out
    session.run("step_no = 0")
    capsys.readouterr()
    with pytest.raises(ProcessError):
        session.run("1 / 0")
    assert "differ" not in capsys.readouterr().out
