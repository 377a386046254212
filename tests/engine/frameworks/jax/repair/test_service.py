"""JAX's coordination service in a process of its own, alone and as the parent of a host starts and ends it."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys

import psutil
import pytest

from nbdist.agent import coordination
from nbdist.contract.orders import (
    COORDINATOR,
    Assignment,
    Coordinate,
    EndCoordination,
    to_line,
)
from nbdist.engine.frameworks.jax.repair import backend as repairing
from nbdist.machine.ports import free_ports
from nbdist.version import __version__

WAIT = 100

JOIN = """
import sys, jax
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_recoverability", True)
jax.distributed.initialize(
    sys.argv[1], 2, int(sys.argv[2]), coordinator_bind_address="127.0.0.1:0",
    cluster_detection_method="deactivate", initialization_timeout=int(sys.argv[3]),
)
print("processes", jax.process_count(), len(jax.devices()), flush=True)
"""


def listens(pid):
    """The addresses on which a process listens; gRPC writes those of IPv4 as IPv6 has them."""
    found = psutil.Process(pid).net_connections("tcp")
    every = [c.laddr for c in found if c.status == psutil.CONN_LISTEN]
    return {(one.ip.removeprefix("::ffff:"), one.port) for one in every}


@contextlib.contextmanager
def ended(process):
    """A process that ends with the block, however that ends."""
    with process:
        try:
            yield process
        finally:
            process.kill()


@contextlib.contextmanager
def serving(processes):
    """A service for so many processes: its process and its address."""
    address = f"127.0.0.1:{free_ports(1)[0]}"
    ready, end = os.pipe()
    command = [sys.executable, "-m", "nbdist.agent.coordination", address, str(processes), str(end)]
    with ended(subprocess.Popen(command, pass_fds=[end])) as process:
        os.close(end)
        try:
            assert select.select([ready], [], [], WAIT)[0]
            assert os.read(ready, 10) == coordination.READY
        finally:
            os.close(ready)
        yield process, address


@pytest.fixture
def service():
    """A service for two processes: its process and its address."""
    with serving(2) as found:
        yield found


def joining(address, process_id, *, within_s):
    command = [sys.executable, "-c", JOIN, address, str(process_id), str(within_s)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_it_listens_on_the_address_given_and_on_no_other(service):
    process, address = service
    host, _, port = address.rpartition(":")
    assert listens(process.pid) == {(host, int(port))}


def test_processes_find_each_other_through_it_and_their_end_is_not_its_own(service):
    process, address = service
    both = [joining(address, p, within_s=WAIT) for p in (0, 1)]
    said = [one.communicate(timeout=WAIT) for one in both]
    assert [out.split() for out, _ in said] == [["processes", "2", "2"]] * 2, said
    assert process.poll() is None


def test_one_that_waits_for_another_in_vain_ends_with_an_error_of_its_own(service):
    process, address = service
    alone = joining(address, 0, within_s=3)
    _, errors = alone.communicate(timeout=WAIT)
    assert alone.returncode != 0
    assert errors
    assert process.poll() is None


REPAIRED = """
import sys, jax
from nbdist.engine.frameworks.jax.repair import backend as service
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_recoverability", True)
both = dict(cluster_detection_method="deactivate", coordinator_bind_address="127.0.0.1:0", process_id=0)
try:
    service.join(dict(both, coordinator_address=sys.argv[1], num_processes=2, initialization_timeout=3))
except RuntimeError as error:
    print(error, flush=True)
service.leave()
service.join(dict(both, coordinator_address=sys.argv[2], num_processes=1, initialization_timeout=60))
print("processes", jax.process_count(), len(jax.devices()), flush=True)
service.leave()
"""


def test_in_a_repair_one_that_waits_in_vain_lives_on_and_joins_the_next(service):
    _, first = service
    with serving(1) as (_, second):
        ran = subprocess.run(
            [sys.executable, "-c", REPAIRED, first, second],
            capture_output=True,
            text=True,
            timeout=WAIT,
            check=False,
        )
    assert ran.stdout.splitlines() == [
        "the other processes did not arrive within 3 s",
        "processes 1 1",
    ], ran.stderr
    assert ran.returncode == 0


def relayed(address):
    """What passes on what is sent to the port it answers, in a process of its own."""
    command = [sys.executable, "-c", RELAY, address]
    return ended(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))


RELAY = """
import select, sys
from nbdist.agent.coordination import Relays
relays = Relays()
print(relays.open(sys.argv[1]), flush=True)
while select.select([relays], [], []):
    relays.pump()
"""

LEFT = """
import sys, time, jax
from nbdist.engine.frameworks.jax.repair import backend as service
jax.config.update("jax_platforms", "cpu")
jax.config.update("jax_enable_recoverability", True)
with service.leaves_without_asking():
    jax.distributed.initialize(
        f"127.0.0.1:{sys.argv[1]}", 1, 0, coordinator_bind_address="127.0.0.1:0",
        cluster_detection_method="deactivate", heartbeat_timeout_seconds=86400,
    )
print("processes", jax.process_count(), flush=True)
sys.stdin.readline()
service.leave()
print("left", flush=True)
"""


def test_one_that_reaches_it_through_its_agent_outlives_it_and_leaves_at_once():
    with serving(1) as (process, address), relayed(address) as relay:
        command = [sys.executable, "-c", LEFT, relay.stdout.readline().strip()]
        joined = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        with ended(joined) as one:
            assert one.stdout.readline().split() == ["processes", "1"]
            process.kill()
            process.wait()
            said, _ = one.communicate("\n", timeout=WAIT)
    assert (said, one.returncode) == ("left\n", 0)


def test_other_errors_of_joining_stay_what_they_are(monkeypatch):
    def refuse(**arguments):
        raise RuntimeError("should only be called once")

    monkeypatch.setattr("jax.distributed.initialize", refuse)
    with pytest.raises(RuntimeError, match="only be called once"):
        repairing.join({"initialization_timeout": 3})


def test_where_jaxs_own_service_is_gone_it_is_an_error(monkeypatch):
    monkeypatch.delattr("jax._src.lib._jax.get_distributed_runtime_service")
    with pytest.raises(AttributeError):
        coordination.service_at("127.0.0.1:0", 2)


class Parent:
    """The parent of a host, spoken to in lines."""

    def __init__(self, folder, *, fork):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "nbdist.agent"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.order(
            Assignment(
                nbdist=__version__,
                cluster_id="tests",
                preload=("jax",),
                fork=fork,
                folder=str(folder),
            )
        )

    def order(self, order):
        self.process.stdin.write(to_line(order).decode())
        self.process.stdin.flush()

    def event(self, kind, **facts):
        """The next event of a kind, and with these facts."""
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == kind and facts.items() <= event.items():
                return event
        raise AssertionError(f"it ended before {kind!r}")

    def coordinate(self, number, port=None):
        """Has it start a service; answers the process id and the event."""
        self.order(
            Coordinate(number=number, process_id=0, host="127.0.0.1", port=port, processes=2)
        )
        started = self.event("started", process_id=number)
        return started["pid"], self.event("coordinating", number=number)


@pytest.fixture(params=[True, False], ids=["forked", "fresh"])
def parent(request, tmp_path):
    made = Parent(tmp_path, fork=request.param)
    try:
        yield made
    finally:
        made.process.stdin.close()
        made.process.wait(WAIT)
        made.process.stdout.close()


def test_a_parent_starts_services_and_ends_the_one_it_is_reported(parent):
    (port,) = free_ports(1)
    first, event = parent.coordinate(COORDINATOR, port)
    assert event["address"] == f"127.0.0.1:{port}"
    assert listens(first) == {("127.0.0.1", port)}
    second, event = parent.coordinate(COORDINATOR - 1)
    other = int(event["address"].rpartition(":")[2])
    assert other != port
    assert listens(second) == {("127.0.0.1", other)}
    parent.order(EndCoordination(number=COORDINATOR))
    ended = parent.event("exited")
    assert (ended["process_id"], ended["code"]) == (COORDINATOR, -signal.SIGKILL)
    assert not psutil.pid_exists(first)
    assert listens(second) == {("127.0.0.1", other)}


def test_services_end_with_their_parent(parent):
    pid, _ = parent.coordinate(COORDINATOR)
    parent.process.stdin.close()
    parent.process.wait(WAIT)
    assert not psutil.pid_exists(pid)


def test_services_end_with_a_parent_that_is_killed(parent):
    pid, _ = parent.coordinate(COORDINATOR)
    service = psutil.Process(pid)
    parent.process.kill()
    parent.process.wait(WAIT)
    psutil.wait_procs([service], timeout=WAIT)
    assert not service.is_running()


def test_a_port_that_is_taken_is_reported_with_the_last_words(parent):
    (port,) = free_ports(1)
    parent.coordinate(COORDINATOR, port)
    _, event = parent.coordinate(COORDINATOR - 1, port)
    assert event["address"] is None
    assert "Address already in use" in "\n".join(event["last_lines"])
