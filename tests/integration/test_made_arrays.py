"""Arrays however JAX makes them: each has its values wherever nbdist reads it, and after every repair.

An array that lies on one other process alone is refused, with the process that has it.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ArrayError, SessionError
from tests.builders.endings import pid_of
from tests.in_step.world import World
from tests.variants import cases

MAKE = """
import os, jax, jax.numpy as jnp, numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

mesh = jax.make_mesh((jax.device_count(),), ("d",))
whole, split = NamedSharding(mesh, P()), NamedSharding(mesh, P("d"))
here = whole.with_memory_kind("pinned_host")
base = np.arange(24, dtype=np.float32)
mine = base.reshape(jax.process_count(), -1)[jax.process_index()]
put, make, copy = jax.device_put, jax.make_array_from_callback, jax.jit(lambda x: x * 1)
given = lambda: jnp.asarray(base)
made = {
    "NumPy": put(base, whole),
    "NumPy, split": put(base, split),
    "local": put(given(), whole),
    "local, split": put(given(), split),
    "local, memory of the host": put(given(), here),
    "local, transposed": put(given(), whole).T,
    "local, of a tree": put({"x": [given()]}, whole)["x"][0],
    "local, split again": put(put(given(), whole), split),
    "local, resharded": jax.sharding.reshard(put(given(), whole), split),
    "local, computed": copy(put(given(), whole)),
    "local, passed on": jax.jit(lambda x: x)(put(given(), whole)),
    "local, donated": jax.jit(lambda x: x * 1, donate_argnums=0)(put(given(), whole)),
    "split to whole": put(put(base, split), whole),
    "callback": make((24,), whole, lambda index: base[index]),
    "callback, split": make((24,), split, lambda index: base[index]),
    "process-local": jax.make_array_from_process_local_data(whole, base),
    "process-local, split": jax.make_array_from_process_local_data(split, mine),
    "single arrays": jax.make_array_from_single_device_arrays(
        (24,), whole, [put(base, device) for device in jax.local_devices()]
    ),
    "computed, split": jax.jit(lambda: jnp.arange(24.0), out_shardings=split)(),
    "computed of NumPy": jax.jit(lambda x: x, out_shardings=whole)(base),
    "own": given(),
    "own, committed": put(base, jax.local_devices()[-1]),
}
elsewhere = put(base, NamedSharding(Mesh(np.array(jax.devices()[:1]), ("d",)), P()))
"""
VALUES = np.arange(24, dtype=np.float32)


@pytest.fixture(scope="module", params=cases(1, 2, 4))
def session(request: pytest.FixtureRequest) -> Iterator[Session]:
    with nbdist.start(
        2, devices_per_process=request.param, platform="cpu", copies_s=0, grace_s=0.3
    ) as found:
        found.run(MAKE)
        yield found


def wrong(session: Session) -> dict[str, str]:
    """The arrays that cannot be brought, or are not as they were made."""
    found = {}
    for name in session.pull("[*made]"):
        try:
            same = np.array_equal(session.pull(f"made[{name!r}]"), VALUES)
        except ArrayError as error:
            found[name] = str(error)
        else:
            found |= {} if same else {name: "other values"}
    return found


def test_they_are_pulled_looked_at_saved_and_restored(session: Session, tmp_path: Path) -> None:
    assert wrong(session) == {}
    assert "22 arrays" in session.nan("made")
    for name in ("local", "local, split"):
        session.run(f"one = made[{name!r}]")
        assert "23" in session.values("one")["text"], name
    session.save(tmp_path / "saved", ["made"])
    session.run("made = None")
    session.run("del made")
    session.restore(tmp_path / "saved")
    assert wrong(session) == {}
    session.run(MAKE)


def test_one_of_another_process_alone_is_refused_with_the_process_that_has_it(
    session: Session,
) -> None:
    with pytest.raises(ArrayError, match=r"lies on process 0 alone\. on=\[0\] brings it"):
        session.pull("elsewhere")
    assert np.array_equal(session.pull("elsewhere", on=[0]), VALUES)


def test_none_is_lost_by_an_exception_nor_with_a_process(session: Session) -> None:
    failing = World(session, ()).attempt(
        "if jax.process_index():\n    raise ValueError\ncopy(made['local']).block_until_ready()"
    )
    assert failing.repaired, failing.text
    assert failing.lost == set()
    assert wrong(session) == {}
    session.run("pass")  # copies are made after it
    os.kill(pid_of(session, 1), signal.SIGKILL)
    died = World(session, ()).attempt("1")
    assert died.repaired, died.text
    assert died.lost == set(), died.text
    # Arrays of one process alone are in doubt where they were not read before it ended.
    try:
        assert wrong(session) == {}
    except SessionError as refused:
        assert "made was copied" in str(refused)
    assert wrong(session) == {}
