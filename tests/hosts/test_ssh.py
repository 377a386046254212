"""Sessions over ssh, on real hosts: what runs there, what listens, what travels, and that nothing stays."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import psutil
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import ProcessError
from tests.hosts.left import ESTABLISHED, LISTENING, Left, connections, read_sockets, sockets
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.fixtures import need
from tests.testbed.hosts import ENVIRONMENT, ROOT, HostOptions, TestBed
from tests.testbed.possible import why_no_hosts
from tests.told import told
from tests.waiting import wait_for

HOSTS = "h[2,1]:2"
"""Not in the order of the alphabet."""
INTERRUPT_SECONDS = 30.0


def logins(bed: TestBed, i: int) -> int:
    """How often somebody has logged in to host i since it was made."""
    return (bed.folder / f"h{i}" / "log").read_text().count("Accepted publickey")


@pytest.fixture(scope="module")
def session(hosts: TestBed, left: Left) -> Iterator[Session]:
    """Two processes on each of two hosts, with one collective behind them."""
    with nbdist.start(hosts=HOSTS, ssh_config=str(hosts.ssh_config)) as found:
        found.run(COLLECTIVE)
        yield found


def test_one_collective_spans_the_hosts_and_ids_follow_the_order_they_are_named_in(
    session: Session,
) -> None:
    assert session.hosts == {0: "h2", 1: "h2", 2: "h1", 3: "h1"}
    session.run("import socket\nwhere = socket.gethostname()\nsum_of_all = float(total(x))")
    assert [session.pull("where", on=str(p)) for p in range(4)] == ["h2", "h2", "h1", "h1"]
    assert [session.pull("sum_of_all", on=str(p)) for p in range(4)] == [24.0] * 4
    assert "2 hosts, 4 cpu devices" in session.describe()


def test_a_cell_can_be_for_one_host(session: Session) -> None:
    session.run("here = False")
    session.run("here = True", on="host=h1")
    assert [session.pull("here", on=str(p)) for p in range(4)] == [False, False, True, True]
    session.run("here = 'by number'", on="1-2")
    assert [session.pull("here", on=str(p)) for p in range(1, 4)] == ["by number"] * 2 + [True]


def test_an_array_that_lies_on_all_hosts_is_pulled_whole(session: Session) -> None:
    session.run(
        "y = jax.make_array_from_callback((24,), NamedSharding(mesh, P('d')), lambda i: np.arange(24.)[i])"
    )
    assert np.array_equal(session.pull("y"), np.arange(24.0))


def test_arrays_go_to_other_hosts_in_messages_whole_and_in_pieces(session: Session) -> None:
    array = np.random.default_rng(0).random((512, 1 << 14), dtype=np.float32)  # of several messages
    session.push({"sent": array})
    session.push({"divided": array}, sharding="NamedSharding(mesh, P('d'))")
    session.run("pieces = len(divided.addressable_shards)")
    assert session.pull("pieces") == 1
    for name in ("sent", "divided"):
        np.testing.assert_array_equal(session.pull(name), array)
    session.run("del sent, divided")


def test_errors_status_and_snapshot_name_the_host(session: Session) -> None:
    with pytest.raises(ProcessError, match=r"process 2 \(host h1\)"):
        session.run("if me == 2:\n    raise ValueError('empty batch')")
    rows = [row.split()[:2] for row in session.status().splitlines()]
    assert [[str(p), host] for p, host in session.hosts.items()] == [
        r for r in rows if r[0] in "0123"
    ]
    assert [p.host for p in session.snapshot().processes] == ["h2", "h2", "h1", "h1"]


def test_everything_listens_on_one_address_and_never_on_all(
    hosts: TestBed, session: Session
) -> None:
    for i in (1, 2):
        received = {own.rpartition(":")[0] for own, _ in sockets(hosts, i, LISTENING)}
        # Kernels of engines on loopback; the coordinator and gloo where the other host reaches them.
        assert received == {"127.0.0.1", hosts.address(i)}
    text = Path("/proc/net/tcp").read_text() + Path("/proc/net/tcp6").read_text()
    mine = inodes([psutil.Process(), *here(hosts)])
    received = {
        own.rpartition(":")[0] for own, _, inode in read_sockets(text, LISTENING) if inode in mine
    }
    assert hosts.head_address in received
    assert received <= {hosts.head_address, "127.0.0.1"}


def here(bed: TestBed) -> list[psutil.Process]:
    """What this process has started on this machine, without the bed and its hosts."""
    space = Path("/proc/self/ns/pid").readlink()
    found = []
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(OSError, psutil.Error):
            if Path(f"/proc/{process.pid}/ns/pid").readlink() == space and str(
                ROOT / "tests"
            ) not in " ".join(process.cmdline()):
                found.append(process)
    return found


def inodes(processes: list[psutil.Process]) -> set[str]:
    """The sockets of processes, as /proc/net/tcp numbers them."""
    found = set()
    for process in processes:
        for entry in Path(f"/proc/{process.pid}/fd").iterdir():
            with contextlib.suppress(OSError):
                kind, _, number = str(entry.readlink()).partition(":")
                if kind == "socket":
                    found.add(number.strip("[]"))
    return found


def test_only_the_connection_file_for_engines_travels_and_only_its_user_can_read_it(
    hosts: TestBed, session: Session
) -> None:
    for i in (1, 2):
        (folder,) = set(hosts.files_left(i, "/tmp/nbdist-*")) - {hosts.folder.parent}
        (path,) = hosts.files_left(i, f"{folder}/security/*")
        assert path.name == "ipcontroller-nbdist-engine.json"
        modes = hosts.exec(i, "stat", "-c", "%a", str(folder), str(path.parent), str(path)).stdout
        assert modes.split() == ["700", "700", "600"]
        connection = json.loads(hosts.exec(i, "cat", str(path)).stdout)
        assert connection["interface"] == f"tcp://{hosts.head_address}"
        assert len(connection["curve_serverkey"]) == 40
        assert len(connection["key"]) == 64  # signed as well as encrypted
        assert "curve_secretkey" not in connection


def test_each_host_has_one_connection_for_its_whole_life(hosts: TestBed, session: Session) -> None:
    ssh = [process for process in here(hosts) if process.name() == "ssh"]
    assert len(ssh) == 2
    assert [len(connections(hosts, i)) for i in (1, 2, 3)] == [1, 1, 0]
    assert [logins(hosts, i) for i in (1, 2, 3)] == [1, 1, 0]


def test_an_interrupt_reaches_the_processes_of_all_hosts(session: Session) -> None:
    handle = session.run("time.sleep(60)", wait=False)
    wait_for(lambda: {p.state for p in session.snapshot().processes} == {"running"})
    session.interrupt()
    began = time.monotonic()
    with pytest.raises(ProcessError, match="were interrupted"):
        handle.wait()
    assert time.monotonic() - began < INTERRUPT_SECONDS
    session.restart()
    session.run(COLLECTIVE)


def test_a_process_that_is_killed_on_another_host_is_reported_with_its_last_words_and_replaced(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    before = session.snapshot().processes[3].pid
    with pytest.raises(ProcessError, match=r"Process 3 \(host h1\)") as caught:
        session.run(
            "import os, signal\nif me == 3:\n    os.write(2, b'fatal: no luck\\n')\n"
            "    os.kill(os.getpid(), signal.SIGKILL)"
        )
    assert "SIGKILL" in str(caught.value) and "fatal: no luck" in told(caught.value)
    assert "Process 3 was replaced" in told(caught.value)
    process = session.snapshot().processes[3]
    assert (process.host, process.state) == ("h1", "idle")
    assert process.pid != before
    session.run(COLLECTIVE)


def test_between_cells_a_killed_process_is_reported_at_once_and_replaced_before_the_next(
    hosts: TestBed, session: Session
) -> None:
    session.restart()
    session.run("import os\npid = os.getpid()")
    hosts.exec(1, "kill", "-9", str(session.pull("pid", on="2")))
    wait_for(lambda: any("Process 2 is lost" in n.title for n in session.snapshot().notices))
    session.run("pid = os.getpid()")
    assert len(set(session.pull("pid", each=True).values())) == 4
    session.run(COLLECTIVE)
    assert not session.snapshot().notices


def test_when_the_session_has_ended_nothing_is_left_on_any_host(
    session: Session, left: Left
) -> None:
    assert any("on h1" in text for text in left.now())
    session.shutdown()
    left.nothing()


KERNEL = """
import os, sys, time, warnings, nbdist
session = nbdist.start(hosts="h1:1,h3:1", ssh_config=sys.argv[1])
warnings.simplefilter("ignore")
child = os.fork() if sys.argv[2] == "with a forked child" else -1
if child == 0:
    time.sleep(100)
    os._exit(0)
print("up", child, flush=True)
session.run("import time\\ntime.sleep(60)")
"""


@pytest.mark.parametrize("how", ["alone", "with a forked child"])
def test_nothing_outlives_a_kernel_that_is_killed(hosts: TestBed, left: Left, how: str) -> None:
    before = left.now()
    with subprocess.Popen(
        (sys.executable, "-c", KERNEL, str(hosts.ssh_config), how), stdout=subprocess.PIPE
    ) as kernel:
        assert kernel.stdout is not None
        said, child = kernel.stdout.readline().split()
        assert said == b"up"
        there = left.now()
        assert any("on h3" in text for text in there)
        kernel.kill()
    forked = [psutil.Process(int(child))] if how != "alone" else []
    of_child = [text for text in there if text.startswith(f"on this machine: {int(child)} ")]
    try:
        left.nothing(besides=[*before, *of_child])
        assert all(process.is_running() for process in forked)  # it was there until now
    finally:
        for process in forked:
            process.kill()


@pytest.fixture
def second_port(hosts: TestBed) -> Iterator[int]:
    """Another port on which h3 takes ssh."""
    port = 2222
    daemon = ("/usr/sbin/sshd", "-D", "-e", "-p", str(port), "-f", f"{hosts.folder}/h3/sshd_config")
    with subprocess.Popen(
        hosts.command(3, *daemon), env=ENVIRONMENT, stderr=subprocess.DEVNULL
    ) as running:
        wait_for(lambda: any(own.endswith(f":{port}") for own, _ in sockets(hosts, 3, LISTENING)))
        yield port
        os.kill(sshd_of(running.pid), signal.SIGTERM)


def sshd_of(pid: int) -> int:
    """The sshd below what has entered the host."""
    process = psutil.Process(pid)
    return next((p.pid for p in process.children(recursive=True)), pid)


def test_a_file_names_hosts_with_users_and_ports_and_keras_runs_on_them(
    hosts: TestBed, left: Left, second_port: int, tmp_path: Path
) -> None:
    before = left.now()
    path = tmp_path / "hosts"
    path.write_text(
        f"# as Open MPI has it\nh1 slots=1\n\nroot@h3:{second_port}:1  # another port\n"
    )
    with nbdist.start(
        hosts_file=str(path), ssh_config=str(hosts.ssh_config), framework="keras"
    ) as session:
        assert session.hosts == {0: "h1", 1: "h3"}
        assert len(connections(hosts, 3, port=second_port)) == 1
        assert connections(hosts, 3) == []
        session.run("import keras\ndevices = len(keras.distribution.list_devices())")
        assert session.pull("devices") == 2
        assert "keras" in session.describe()
    left.nothing(besides=before)


def test_the_persons_ssh_configuration_says_where_a_name_leads(
    hosts: TestBed, left: Left, tmp_path: Path
) -> None:
    before = left.now()
    with pytest.raises(OSError):
        socket.getaddrinfo("the-large-one", 22)
    config = tmp_path / "config"
    config.write_text(
        f"Host the-large-one\n  HostName {hosts.address(2)}\n{hosts.ssh_config.read_text()}"
    )
    with nbdist.start(hosts="the-large-one", ssh_config=str(config)) as session:
        session.run("import socket\nwhere = socket.gethostname()")
        assert session.pull("where") == "h2"
        assert session.hosts == {0: "the-large-one"}
    left.nothing(besides=before)


@pytest.fixture(scope="module")
def odd() -> Iterator[TestBed]:
    """Hosts whose own names mislead: h1 as Debian's installer leaves it, h2 unknown to itself."""
    need(why_no_hosts())
    options = {1: HostOptions(own_name="loopback"), 2: HostOptions(own_name="unknown")}
    with TestBed(2, options=options) as bed:
        yield bed


def test_hosts_that_do_not_know_their_own_address_compute_together(odd: TestBed) -> None:
    with nbdist.start(hosts="h1:1,h2:1", ssh_config=str(odd.ssh_config)) as session:
        session.run(COLLECTIVE)
        session.run("sum_of_all = float(total(x))")
        assert [session.pull("sum_of_all", on=str(p)) for p in (0, 1)] == [24.0, 24.0]
        for i in (1, 2):
            assert not any(own.startswith("127.0.1.1") for own, _ in sockets(odd, i, ESTABLISHED))
