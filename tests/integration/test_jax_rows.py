"""What `jax.distributed.initialize` promises, seen from cells: checkpoints, timeouts, names that mislead."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import nbdist
from nbdist import Session
from nbdist.errors import LaunchError

CHECKPOINT = """
import jax, jax.numpy as jnp, numpy as np
import orbax.checkpoint as ocp
from jax.sharding import AxisType, NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((2, 2), ("data", "model"), axis_types=(AxisType.Auto,) * 2)
def put(array, spec):
    return jax.make_array_from_callback(array.shape, NamedSharding(mesh, spec), lambda i: array[i])
tree = {{"w": put(np.arange(32.0, dtype=np.float32).reshape(8, 4), P("data", "model")),
         "b": put(np.ones(4, np.float32), P())}}
with ocp.StandardCheckpointer() as saver:
    saver.save({path!r}, tree)
"""

RESTORE = """
shapes = jax.tree.map(lambda a: jax.ShapeDtypeStruct(a.shape, a.dtype, sharding=a.sharding), tree)
with ocp.StandardCheckpointer() as saver:
    restored = saver.restore({path!r}, shapes)
w = restored["w"]
same = w.sharding == tree["w"].sharding
"""


def test_a_sharded_tree_is_saved_and_restored_from_cells(session: Session, tmp_path: Path) -> None:
    path = str(tmp_path / "checkpoint")
    session.run(CHECKPOINT.format(path=path))
    session.run(RESTORE.format(path=path))
    assert session.pull("w").ravel().tolist() == list(range(32))
    assert session.pull("same") is True


def test_processes_that_do_not_connect_are_named(tmp_path: Path) -> None:
    # Process 1 stands still before it can connect; JAX's own error on process 0 names nobody.
    (tmp_path / "sitecustomize.py").write_text(
        textwrap.dedent(
            """
            import os, sys, time
            def stand_still():
                if "jax" not in sys.modules:
                    return
                distributed = sys.modules["jax"].distributed
                connect = distributed.initialize
                def initialize(**options):
                    # Who this process is, is not known at the fork.
                    if os.environ.get("NBDIST_PROCESS_ID") == "1":
                        time.sleep(60)
                    connect(**options)
                distributed.initialize = initialize
            os.register_at_fork(after_in_child=stand_still)
            """
        )
    )
    with pytest.raises(LaunchError, match=r"process 1 \(host .*did not connect"):
        nbdist.start(
            2,
            platform="cpu",
            initialization_timeout_s=3,
            environment={"PYTHONPATH": str(tmp_path)},
        )


ELSEWHERE = """
import ipaddress, psutil, socket, nbdist
assert socket.gethostbyname(socket.gethostname()) == {address!r}
with nbdist.start(2, devices_per_process=2, platform="cpu") as session:
    session.run('''
import jax, numpy as np
from jax.sharding import NamedSharding, PartitionSpec as P
mesh = jax.make_mesh((4,), ("d",), axis_types=(jax.sharding.AxisType.Auto,))
x = jax.make_array_from_callback((8,), NamedSharding(mesh, P("d")), lambda i: np.ones(8)[i])
total = float(jax.jit(lambda x: x.sum())(x))
''')
    assert session.pull("total") == 8.0
    found = {{
        connection.laddr.ip
        for process in psutil.Process().children(recursive=True)
        for connection in process.net_connections(kind="tcp")
        if connection.status == psutil.CONN_LISTEN
    }}
    addresses = [ipaddress.ip_address(one) for one in found]
    print([str(one) for one in addresses if not (getattr(one, "ipv4_mapped", None) or one).is_loopback])
"""


def test_gloo_stays_on_loopback_where_the_host_name_resolves_elsewhere(tmp_path: Path) -> None:
    """A name of its own, in namespaces of its own, resolves to another address of this machine."""
    address = "10.99.0.1"
    hosts = tmp_path / "hosts"
    hosts.write_text(f"127.0.0.1 localhost\n{address} elsewhere\n")
    script = tmp_path / "start.py"
    script.write_text(ELSEWHERE.format(address=address))
    inside = (
        f"mount --bind {hosts} /etc/hosts && hostname elsewhere && ip link set lo up && "
        f"ip address add {address}/32 dev lo && exec {sys.executable} {script}"
    )
    command = ["unshare", "--uts", "--mount", "--net", "sh", "-c", inside]
    allowed = subprocess.run([*command[:-1], "true"], capture_output=True, check=False)
    if allowed.returncode:
        pytest.skip("This machine does not let this user make namespaces of its own.")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=environment, timeout=100
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "[]"
