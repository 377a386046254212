"""Two hosts with two processes each: against plain `ssh host python` processes that do the same.

The hosts are namespaces of this machine, so all share its processors; rounds of both kinds alternate.
"""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import time

import nbdist
from tests.bench.figures import ratio
from tests.bench.start import COLLECTIVE, ENVIRONMENT, HERE
from tests.testbed.hosts import TestBed
from tests.testbed.possible import why_no_hosts

PROCESSES = 4
PORT = 20011
SHOWN_SECONDS = 20.0
UNHEARD = "Host h2 does not answer."

SESSION = f"""
import json, sys, time
import nbdist
session = nbdist.start(hosts="h1:2,h2:2", ssh_config=sys.argv[1], devices_per_process=2, platform="cpu")
session.run({COLLECTIVE!r})
done = time.time()
session.shutdown()
print(json.dumps({{"done": done, "stop": time.time() - done}}))
"""


def plain(bed: TestBed, port: int) -> float:
    """Seconds until the last of four plain processes, each behind an ssh of its own, has done a collective."""
    started = time.time()
    processes = []
    for i in range(PROCESSES):
        ssh = ["ssh", "-F", str(bed.ssh_config), f"h{i // 2 + 1}"]
        script = [sys.executable, str(HERE / "plain.py"), str(i), str(PROCESSES), str(port)]
        command = [*ssh, "env", "JAX_PLATFORMS=cpu", *script, bed.address(1)]
        processes.append(
            subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        )
    done = [float(process.communicate()[0].split()[-1]) for process in processes]
    return max(done) - started


def session(bed: TestBed) -> tuple[float, float]:
    """Seconds until a session's first collective is done, imports included, and seconds to stop it."""
    started = time.time()
    done = subprocess.run(
        [sys.executable, "-c", SESSION, str(bed.ssh_config)],
        env=ENVIRONMENT,
        check=True,
        capture_output=True,
        text=True,
    )
    reported = json.loads(done.stdout.split("\n")[-2])
    return reported["done"] - started, reported["stop"]


def vanished(bed: TestBed) -> float:
    """Seconds from cutting a host until the view says that it does not answer."""
    with nbdist.start(hosts="h1,h2", ssh_config=str(bed.ssh_config), platform="cpu") as running:
        cut = time.monotonic()
        bed.cut(2)
        seen = False
        while not seen and time.monotonic() - cut < SHOWN_SECONDS:
            time.sleep(0.05)
            seen = any(n.title == UNHEARD for n in running.snapshot().notices)
        seconds = time.monotonic() - cut
        bed.heal(2)
    return seconds if seen else float("inf")


def main(rounds: int = 5) -> None:
    """Prints a line for the start, one for the stop and one for a host that vanishes."""
    said = why_no_hosts()
    if said is not None:
        print(f"many hosts: not measured. {said}")
        return
    with TestBed(2) as bed:
        floor, ours, stops = [], [], []
        for i in range(rounds):
            floor.append(plain(bed, PORT + i))
            start, stop = session(bed)
            ours.append(start)
            stops.append(stop)
        what = "start to first collective  2 hosts × 2 over ssh"
        ratio(what, ours, floor, of="plain ssh processes", wanted="1.5 at most")
        print(
            f"stop  2 hosts × 2 over ssh: {statistics.median(stops):.2f} s (slowest {max(stops):.2f} s; wanted: "
            "2 s at most)"
        )
        print(f"a host that is cut off is shown after {vanished(bed):.1f} s (wanted: 5 s at most)")


if __name__ == "__main__":
    main()
