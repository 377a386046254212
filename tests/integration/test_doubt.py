"""Each value of a process that was replaced is what it was, or in doubt, or named: none is silently another's."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

import pytest

import nbdist
from nbdist import Session
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
