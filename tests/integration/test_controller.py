"""ipyparallel's controller ends: nothing can be asked any more, and what the processes hold is saved."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

import nbdist
from nbdist.errors import RecoveryError, SessionError
from tests.waiting import wait_for

SETUP = """
import os, jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2,), ("x",))
w = jax.device_put(np.arange(8.0, dtype="f4"), NamedSharding(mesh, P("x")))
own = np.full(3, jax.process_index())
"""


def controller_of(session: nbdist.Session) -> psutil.Process:
    """The agent's first child, and no engine."""
    engines = {one.pid for one in session.snapshot().processes}
    agent = psutil.Process(next(iter(engines))).parent()
    assert agent is not None
    others = [child for child in agent.children() if child.pid not in engines]
    return min(others, key=lambda child: child.create_time())


def test_what_the_processes_hold_is_saved_and_it_is_said_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    with nbdist.start(processes=2, devices_per_process=1, platform="cpu") as session:
        session.run(SETUP)
        controller_of(session).kill()
        wait_for(lambda: session.out_of_step)
        files = wait_for(
            lambda: (
                found
                if len(found := sorted(tmp_path.glob("nbdist-rescued-*/process-?.npz"))) == 2
                else None
            )
        )
        said = r"process N to nbdist-rescued-PID-\*/process-N\.npz, which numpy\.load reads"
        with pytest.raises(SessionError, match=said):
            session.run("print(w)")
        with pytest.raises(RecoveryError, match=said):
            session.recover()
        assert "ipyparallel's controller killed by signal 9" in session.status()
        session.restart()
        session.run("import jax\nassert jax.process_count() == 2")
    found = {path.name: dict(np.load(path)) for path in files}
    for number in (0, 1):
        saved = found[f"process-{number}.npz"]
        assert saved["own"].tolist() == [number] * 3
        part = saved[f"w[{4 * number}:{4 * number + 4}]"]
        assert part.tolist() == list(range(4 * number, 4 * number + 4))
