"""JAX's coordination service ends: the processes live on, and join another before the next cell."""

from __future__ import annotations

import threading

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import SessionError
from tests.builders.cells import SPREAD
from tests.builders.endings import kill_service, pids_of
from tests.told import told
from tests.waiting import wait_for

KILLED = "JAX's coordination service killed by signal 9 (SIGKILL)"

SETUP = f"""{SPREAD}
w = spread(np.arange(8.0, dtype="f4"), "x")
total = jax.jit(lambda a: a.sum())
assert float(total(w)) == 28.0
"""


def test_the_processes_live_on_in_and_between_cells(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = pids_of(session)
    for _ in range(2):
        kill_service(session)
        wait_for(lambda: session.out_of_step)
        (notice,) = session.snapshot().notices
        assert KILLED in notice.text
        capsys.readouterr()
        # A program of its own, for which processes that never met connect.
        session.run("assert float(jax.jit(lambda a: (a * 2).sum())(w)) == 56.0")
        out = capsys.readouterr().out
        assert "The session was repaired" in out and "All variables are kept." in out
        assert KILLED in told(session.why())
    timer = threading.Timer(0.5, kill_service, [session])
    timer.start()
    session.run("for i in range(100):\n    total(w).block_until_ready()\n    time.sleep(0.01)")
    timer.join()
    wait_for(lambda: session.out_of_step)
    session.run("assert (i, float(total(w))) == (99, 28.0)")
    assert not session.out_of_step
    assert pids_of(session) == pids


def test_where_nothing_may_be_repaired_without_being_asked_that_is_said() -> None:
    with nbdist.start(processes=2, devices_per_process=1, platform="cpu", recover=False) as session:
        session.run(SETUP)
        kill_service(session)
        wait_for(lambda: session.out_of_step)
        with pytest.raises(SessionError, match=r"(?s)coordination service killed.*recover"):
            session.run("total(w)")
        assert session.recover().code == "repaired"
        session.run("assert float(total(w)) == 28.0")
