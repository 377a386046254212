"""A machine whose /dev/shm has no room, as in containers, which give it 64 MB: values move, and repairs work."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.testbed.fixtures import need
from tests.testbed.possible import why_no_hosts

SESSION = """
import contextlib
import os
import numpy as np
import nbdist
from nbdist.errors import ProcessError

room = os.statvfs("/dev/shm")
assert room.f_blocks * room.f_frsize == 1 << 20, "the test's own /dev/shm"
array = np.arange(8 << 20, dtype=np.float32)
shared = []

def look(done, total):
    names = []
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # that of this list
            names.append(os.readlink(f"/proc/self/fd/{number}"))
    shared.append(any("/memfd:nbdist-" in name for name in names))

with nbdist.start(2, platform="cpu") as session:
    session.run(
        "import jax; from jax.sharding import NamedSharding, PartitionSpec as P\\n"
        "mesh = jax.make_mesh((2,), ('x',))"
    )
    session.push({"x": array}, sharding="NamedSharding(mesh, P('x'))", progress=look)
    try:
        session.run("if jax.process_index(): raise ValueError\\nx.sum().block_until_ready()", grace_s=0.5)
    except ProcessError:
        pass
    assert not session.out_of_step
    assert np.array_equal(session.pull("x", progress=look), array)
    assert shared and all(shared), "not through shared memory"
print("moved")
"""


def test_values_move_and_repairs_work_where_dev_shm_has_no_room(tmp_path: Path) -> None:
    need(why_no_hosts())  # of which each has a /dev/shm of its own, too
    inside = 'mount -t tmpfs -o size=1m tmpfs /dev/shm && exec "$0" -c "$1"'
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", inside, sys.executable, SESSION],
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0 and done.stdout.endswith("moved\n"), done.stdout + done.stderr
