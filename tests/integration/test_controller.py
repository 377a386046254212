"""ipyparallel's controller ends: another takes its place, and where none can, what the processes hold is saved."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import threading
from pathlib import Path

import numpy as np
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ProcessError, RecoveryError, SessionError
from tests.builders.cells import SPREAD
from tests.builders.endings import kill_controller, pids_of
from tests.waiting import wait_for

SETUP = f"""{SPREAD}
w = spread(np.arange(8.0, dtype="f4"), "x")
own = np.full(3, me)
total = jax.jit(lambda a: a.sum())
"""
KILLED = "ipyparallel's controller killed by signal 9 (SIGKILL)"


def server_at(port: int) -> socket.socket | None:
    """Another program at a port; None while what has just ended has it."""
    with contextlib.suppress(OSError):
        return socket.create_server(("127.0.0.1", port))
    return None


def test_the_next_cell_runs_through_another_as_often_as_that_is_needed(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    pids = pids_of(session)
    for _ in range(2):
        kill_controller(session)
        wait_for(lambda: session.out_of_step)
        assert f"out of reach: {KILLED}" in session.status()
        capsys.readouterr()
        session.run("print('sum', float(total(w)))")
        out = capsys.readouterr().out
        assert (
            "The controller of ipyparallel has ended (killed by signal 9 (SIGKILL)); another took its place"
            in out
        )
        assert "sum 28.0" in out
    assert session.pull("own", each=True)[1].tolist() == [1, 1, 1]
    assert pids_of(session) == pids
    assert not session.snapshot().notices


def test_a_cell_that_runs_is_interrupted_and_all_go_on(session: Session) -> None:
    session.run("steps = 0")
    timer = threading.Timer(0.5, kill_controller, [session])
    timer.start()
    with pytest.raises(ProcessError, match=r"out of reach: .*controller killed by signal 9"):
        session.run(
            "while True:\n    value = total(w)\n    value.block_until_ready()\n    steps += 1"
        )
    timer.join()
    assert not session.out_of_step
    assert session.running == ()
    session.run("assert float(total(w)) == 28.0 and steps > 0")


def test_a_process_dies_with_a_later_controller(session: Session) -> None:
    before = pids_of(session)
    kill_controller(session)
    wait_for(lambda: session.out_of_step)
    session.run("own = np.full(3, me)")
    kill_controller(session)
    os.kill(before[1], signal.SIGKILL)
    wait_for(lambda: session.out_of_step)
    session.run("own = np.full(3, jax.process_index())")
    assert session.pull("own", each=True)[1].tolist() == [1, 1, 1]
    assert pids_of(session)[0] == before[0]
    assert pids_of(session)[1] != before[1]


def test_a_kept_session_gets_another_when_a_kernel_comes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NBDIST_STATE", str(tmp_path))
    with nbdist.start(processes=1, platform="cpu", keep=True) as first:
        first.run("kept = 7")
        kill_controller(first)
        wait_for(lambda: first.snapshot().processes[0].state == "lost")
        first.detach()
        second = nbdist.attach(first.id)
        try:
            assert any(f"{KILLED} meanwhile" in remark for remark in second.remarks)
            second.run("assert kept == 7")
        finally:
            second.shutdown()


def test_what_the_processes_hold_is_saved_where_another_program_has_a_port_by_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    said = r"nbdist-rescued-PID-\*/process-N\.npz, which numpy\.load reads"
    with nbdist.start(processes=2, devices_per_process=1, platform="cpu") as session:
        session.run(SETUP)
        port = session._life.engines.cluster.connection["mux"]
        kill_controller(session)
        wait_for(lambda: session.out_of_step)
        taken = rf"(?s)listens at {port}, .*{said}"
        with wait_for(lambda: server_at(port)), pytest.raises(RecoveryError, match=taken):
            session.recover()
        saved = "nbdist-rescued-*/process-?.npz"
        wait_for(lambda: len([*tmp_path.glob(saved)]) == 2)
        with pytest.raises(SessionError, match=said):
            session.run("print(w)")
        session.restart()
        session.run("import jax\nassert jax.process_count() == 2")
    found = {path.name: dict(np.load(path)) for path in tmp_path.glob(saved)}
    for number, part in ((0, range(4)), (1, range(4, 8))):
        arrays = found[f"process-{number}.npz"]
        assert arrays["own"].tolist() == [number] * 3
        assert arrays[f"w[{part.start}:{part.stop}]"].tolist() == list(part)
