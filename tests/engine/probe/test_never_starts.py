"""The probe beside a JAX that is imported and not started, and beside one that is taken down."""

import subprocess
import sys

from nbdist.machine.ports import free_ports

BESIDE = """
import sys, threading, time
import jax, jax.extend.backend
from jax._src import xla_bridge
from tests.engine.recording import recorded

{before}
names = {{"x": 1, "model": {{"w": [2.0]}}, "jax": jax}}
with recorded(names) as seen:
    seen.run("import time\\ntime.sleep(1.5)")
    assert len(seen.reports) >= 2
    assert not xla_bridge.backends_are_initialized(), "started by now"
    assert all(r.devices in (None, ()) for r in seen.reports)
    jax.distributed.initialize(
        "127.0.0.1:{port}", 1, 0, coordinator_bind_address="127.0.0.1:{port}",
        cluster_detection_method="deactivate",
    )
    names["x"] = jax.numpy.ones(3)
    seen.wait_for_arrays("x")
    # Taken down in place: the probe neither keeps the old back end nor starts another.
    del names["x"]
    jax.distributed.shutdown()
    jax.extend.backend.clear_backends()
    time.sleep(0.7)
    assert not xla_bridge.backends_are_initialized()
    seen.wait(lambda: seen.reports[-1].devices == ())
print("as it should be")
"""


def run_beside(before: str) -> subprocess.CompletedProcess[str]:
    code = BESIDE.format(before=before, port=free_ports(1)[0])
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=100, check=False
    )


def test_a_back_end_is_neither_started_nor_kept():
    done = run_beside("")
    assert done.stdout.strip() == "as it should be", done.stderr


def test_this_test_sees_a_back_end_that_is_started():
    started = "threading.Timer(0.3, jax.local_devices).start()"
    done = run_beside(started)
    assert "AssertionError: started by now" in done.stderr
    assert done.stdout == ""
