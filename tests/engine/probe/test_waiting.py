"""What is said of a process that waits in a collective for one that does not come."""

import json
import signal
import subprocess
import sys

import pytest

from nbdist.machine.ports import free_ports

PROCESS = """
import json, sys, threading, time
import jax, numpy as np
jax.config.update("jax_num_cpu_devices", 2)
jax.config.update("jax_cpu_collectives_implementation", "gloo")
process_id, lines = int(sys.argv[2]), json.loads(sys.argv[3])
jax.distributed.initialize(
    f"127.0.0.1:{sys.argv[1]}", 2, process_id, coordinator_bind_address=f"127.0.0.1:{sys.argv[1]}",
    cluster_detection_method="deactivate",
)
mesh = jax.make_mesh((4,), ("d",))
x = jax.device_put(np.ones(8), jax.NamedSharding(mesh, jax.P("d")))
step = jax.jit(lambda x: (x * 2).sum())
ready = step(x).block_until_ready()
if process_id:
    for line in lines:
        print("next", flush=True)
        sys.stdin.readline()
        exec(line)
    sys.exit()

from tests.engine.recording import recorded

def release(seen):
    until = time.monotonic() + 60
    while time.monotonic() < until and not any(a.waiting for a in seen.activities()):
        time.sleep(0.05)
    time.sleep(0.5)  # for some more looks
    print("release", flush=True)

with recorded({"jax": jax, "np": np, "x": x, "step": step, "time": time}) as seen:
    for line in lines:
        del seen.reports[:]
        threading.Thread(target=release, args=[seen]).start()
        seen.run("# a line above\\n" + line)
        found = [a for a in seen.activities() if a.state == "running"]
        print("found", json.dumps([[a.waiting, a.line, a.source] for a in found]), flush=True)
"""

LINES = {
    "method": "step(x).block_until_ready()",
    "function": "jax.block_until_ready(step(x))",
    "float": "float(step(x))",
    "numpy": "np.asarray(step(x))",
    "dispatch": "step(step(x) + x).block_until_ready()",
}


def said(process: subprocess.Popen[str], start: str) -> str:
    """What follows on the next line that starts so; gloo writes lines of its own."""
    for line in process.stdout:
        if line.startswith(start):
            return line.removeprefix(start)
    raise AssertionError(f"a process ended before it said {start!r}")


@pytest.fixture(scope="module")
def seen_while_waiting():
    """For each line: (waiting, line, source) of the reports of the process that is alone in it."""
    port, found = str(free_ports(1)[0]), {}
    lines = json.dumps(list(LINES.values()))
    command = [sys.executable, "-c", PROCESS, port]
    options = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    alone = subprocess.Popen([*command, "0", lines], **options)
    late = subprocess.Popen([*command, "1", lines], **options)
    try:
        for name in LINES:
            said(late, "next")
            said(alone, "release")
            late.stdin.write("\n")
            late.stdin.flush()
            found[name] = json.loads(said(alone, "found "))
        assert alone.wait(20) == late.wait(20) == 0
    finally:
        for process in (alone, late):
            process.send_signal(signal.SIGKILL)
            process.communicate()
    return found


@pytest.mark.parametrize("name", LINES)
def test_waiting_for_another_process_is_seen_at_the_users_line(seen_while_waiting, name):
    found = seen_while_waiting[name]
    assert [True, 2, LINES[name]] in found
    waits = [waiting for waiting, *_ in found]
    # Once it waits it is seen to until it is let go; the last look may come after that.
    assert all(waits[waits.index(True) : -1]), found
