"""Hosts that are cut off, slow, far away, full or dead: what is told, and that nothing stays.

Hosts that cannot take part at all are in `tests/hosts/test_bad_hosts.py`. Crashes come at the same moments each
time; `NBDIST_SEED=N make test-faults` chooses others, and prints which.
"""

from __future__ import annotations

import os
import random
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

import nbdist
from nbdist import Session
from nbdist.errors import HostError, LaunchError, ProcessError, RecoveryError
from nbdist.launch.start import spawn
from nbdist.launch.start.pool import LOST_SECONDS
from tests.hosts.left import Left, processes_in
from tests.integration.test_faults import COLLECTIVE
from tests.testbed.fixtures import need
from tests.testbed.hosts import HostOptions, TestBed
from tests.testbed.possible import why_no_hosts
from tests.waiting import wait_for

pytestmark = pytest.mark.usefixtures("gone")

SEED = int(os.environ.get("NBDIST_SEED", "1"))
ROUNDS = int(os.environ.get("NBDIST_ROUNDS", "8"))
HOSTS = "h1:2,h2:2"
SHOWN_SECONDS = 20.0
"""A host that vanishes is shown as such well before it is given up; `make bench` has the figure."""
ENDED_SECONDS = 45.0
"""After which a cell has ended whose host is gone: the host is given up, and the others are interrupted."""
GRACE_SECONDS = 30.0
"""For what must end at once, on a machine with much else to do."""
LOOP = "for i in range(1000):\n    total_now = float(total(x))\n    time.sleep(0.05)\n"


def start(bed: TestBed, hosts: str = HOSTS, **options: Any) -> Session:
    return nbdist.start(hosts=hosts, ssh_config=str(bed.ssh_config), **options)


def sums(session: Session) -> list[float]:
    """What each process finds in a collective over all of them."""
    session.run("again = float(total(x))")
    return [float(session.pull("again", on=str(p))) for p in session.hosts]


def set_own(session: Session) -> None:
    """Gives each process a value of its own, beside a collective over all of them."""
    session.run(COLLECTIVE)
    session.run("mine = [jax.process_index()] * 3")


def own(session: Session, processes: Iterable[int]) -> bool:
    """Whether these processes have their own values still."""
    return all(session.pull("mine", on=str(p)) == [p] * 3 for p in processes)


@contextmanager
def later(seconds: float, do: Callable[[], object]) -> Iterator[None]:
    """Does something after a while, and waits until it is done."""
    timer = threading.Timer(seconds, do)
    timer.start()
    try:
        yield
    finally:
        timer.join()


def whole(session: Session, hosts: int) -> None:
    """Every process of these hosts computes with all others, and there is nothing to say."""
    assert sums(session) == [24.0] * 2 * hosts
    assert session.snapshot().notices == ()


class Titles:
    """The titles of the notices of a session, and when each was first seen (monotonic)."""

    def __init__(self, session: Session) -> None:
        self.seen: dict[str, float] = {}
        self._session = session
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch)

    def _watch(self) -> None:
        while not self._ended.wait(0.1):
            for notice in self._session.snapshot().notices:
                self.seen.setdefault(notice.title, time.monotonic())

    def __enter__(self) -> Titles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()


def test_a_host_that_takes_ssh_and_nothing_else_is_reported_with_the_connection_that_is_blocked(
    hosts: TestBed,
) -> None:
    hosts.only_ssh(2)
    try:
        with pytest.raises(
            HostError, match="h2: cannot connect to the notebook's machine"
        ) as caught:
            start(hosts)
    finally:
        hosts.delay(2, 0)
    assert caught.value.host == "h2"
    assert f"-s {hosts.address(2)} -p tcp -j ACCEPT" in str(caught.value)


def test_hosts_that_do_not_reach_each_other_are_both_named(hosts: TestBed) -> None:
    # What h2 sends to h1 goes to nobody, answers included.
    way = (hosts.address(1), "dev", "eth0")
    hosts.exec(2, "ip", "neigh", "replace", *way, "lladdr", "02:00:00:00:00:01", "nud", "permanent")
    try:
        with pytest.raises(
            LaunchError,
            match=r"Host h1 cannot connect to host h2|Host h2 cannot connect to host h1",
        ) as caught:
            start(hosts)
    finally:
        hosts.exec(2, "ip", "neigh", "delete", *way)
    assert any(f"at {hosts.address(i)}: no answer" in str(caught.value) for i in (1, 2))


def test_a_cable_that_is_out_for_a_moment_costs_nothing_and_is_reported(
    hosts: TestBed, capsys: pytest.CaptureFixture[str]
) -> None:
    with start(hosts) as session:
        session.run(COLLECTIVE)
        with (
            Titles(session) as titles,
            later(1, lambda: hosts.cut(2)),
            later(6.5, lambda: hosts.heal(2)),
        ):
            cut_at = time.monotonic() + 1
            session.run(LOOP.replace("1000", "200"))
        assert titles.seen["Host h2 does not answer."] - cut_at < SHOWN_SECONDS
        # That h2 was silent is said while it is so.
        assert "silent" not in capsys.readouterr().out
        whole(session, 2)


def test_a_repair_waits_for_a_host_that_is_cut_off_and_all_keep_what_they_have(
    hosts: TestBed,
) -> None:
    with start(hosts) as session:
        set_own(session)
        hosts.cut(2)
        with later(8, lambda: hosts.heal(2)):
            assert session.recover().code == "in step"
        assert own(session, range(4))
        whole(session, 2)


def test_a_repair_that_waits_until_a_host_is_given_up_names_it_and_the_others_keep_what_they_have(
    hosts: TestBed,
) -> None:
    with start(hosts) as session:
        set_own(session)
        hosts.cut(2)
        try:
            with pytest.raises(RecoveryError, match=r"^Processes 2, 3 \(host h2\) are gone"):
                session.recover()
            assert own(session, (0, 1))
        finally:
            hosts.heal(2)
        done = session.recover()
        assert done.code == "resized"
        assert "mine was copied from process 1" in done.text
        session.run(COLLECTIVE)
        assert sums(session) == [24.0] * 4


@pytest.mark.timeout(400)
def test_a_host_that_is_cut_for_good_ends_the_cell_and_all_that_runs_there(
    hosts: TestBed, left: Left, monkeypatch: pytest.MonkeyPatch
) -> None:
    # A host waits for a silent kernel much longer than this test can.
    monkeypatch.setattr(spawn, "KERNEL_LOST_SECONDS", LOST_SECONDS)
    with start(hosts) as session:
        session.run(COLLECTIVE)
        began = time.monotonic()
        with Titles(session) as titles, later(1, lambda: hosts.cut(2)):
            with pytest.raises(ProcessError, match="host h2 does not answer"):
                session.run(LOOP)
            ended = time.monotonic() - began
        print(f"the cell ended {ended - 1:.1f} s after the cut")
        assert ended < 1 + ENDED_SECONDS
        assert titles.seen["Host h2 does not answer."] - began - 1 < SHOWN_SECONDS
        assert "Processes 2, 3 are lost." in titles.seen
        # It is still cut off: what runs there has only its own clock.
        wait_for(lambda: not hosts.processes(2), within_s=LOST_SECONDS + GRACE_SECONDS)
        hosts.heal(2)
        session.restart()
        session.run(COLLECTIVE)
        assert sums(session) == [24.0] * 4
    # The host's sshd sends the rest of what it has to say after longer and longer pauses, and is then refused.
    left.nothing(within_s=3 * ENDED_SECONDS)


@pytest.mark.parametrize("ms", [25, 200])
def test_far_away_hosts_start_and_compute(hosts: TestBed, ms: int) -> None:
    seconds = []
    for delay in (0, ms):
        for i in (1, 2):
            hosts.delay(i, delay)
        began = time.monotonic()
        try:
            with start(hosts) as session:
                session.run(COLLECTIVE)
                seconds.append(time.monotonic() - began)
                assert sums(session) == [24.0] * 4
                assert session.remarks == []
        finally:
            for i in (1, 2):
                hosts.delay(i, 0)
    near, far = seconds
    print(
        f"first collective after {near:.1f} s, {ms} ms away after {far:.1f} s: {far / near:.1f} times"
    )


@pytest.mark.parametrize("least", [None, 1], ids=["all", "min-hosts"])
@pytest.mark.parametrize("turn", range(max(1, ROUNDS // 8)))
def test_a_host_that_dies_during_a_start_is_reported_or_left_out(
    hosts: TestBed, turn: int, least: int | None
) -> None:
    random.seed(SEED + turn)
    moment = random.uniform(0, 3)
    print(f"seed {SEED + turn}: h2 dies {moment:.2f} s into the start")
    session = None
    try:
        with later(moment, lambda: hosts.crash(2)):
            if least is None:
                with pytest.raises(HostError, match="Host h2") as caught:
                    session = start(hosts)
                    # It was faster; then the cell tells.
                    raise HostError(f"Host h2: {shown_by_a_cell(session)}", host="h2")
                assert caught.value.host == "h2"
            else:
                session = start(hosts, min_hosts=1)
                if len(session.hosts) == 4:
                    assert "host h2" in shown_by_a_cell(session)
                else:
                    assert session.hosts == {0: "h1", 1: "h1"}
                    assert session.remarks[0].startswith("Left out: Host h2")
                    session.run(COLLECTIVE)
                    assert sums(session) == [24.0] * 2
    finally:
        if session is not None:
            session.shutdown()
        hosts.boot(2)


def shown_by_a_cell(session: Session) -> str:
    with pytest.raises(ProcessError) as caught:
        session.run(f"{COLLECTIVE}\n{LOOP}")
    return str(caught.value)


def test_a_full_disk_is_reported_with_host_and_folder(temporary: Path) -> None:
    need(why_no_hosts())
    with TestBed(2, options={2: HostOptions(tmp_bytes=1 << 14)}) as bed:
        left = Left(bed, temporary)
        with pytest.raises(HostError, match="/tmp: No space left") as caught:
            start(bed)
        assert caught.value.host == "h2"
        assert "h2 du -xh --max-depth=1 /tmp" in str(caught.value)
        left.nothing()
        with start(bed, min_hosts=1) as session:
            assert session.hosts == {0: "h1", 1: "h1"}


def signal_all(bed: TestBed, i: int, number: int) -> None:
    """Sends a signal to all that a session runs on a host, the connection's sshd included."""
    for process in psutil.process_iter(["name", "cmdline"]):
        command = " ".join(process.info["cmdline"] or ())
        inside = Path(f"/proc/{process.pid}/ns/net")
        try:
            if inside.readlink() == network(bed, i) and ("nbdist" in command or "@" in command):
                process.send_signal(number)
        except (psutil.Error, OSError):
            continue


def network(bed: TestBed, i: int) -> Path:
    """The network namespace of a host."""
    return Path(bed.exec(i, "readlink", "/proc/self/ns/net").stdout.strip())


def test_a_host_that_stands_still_for_a_moment_is_reported_and_goes_on(hosts: TestBed) -> None:
    with start(hosts) as session:
        session.run(COLLECTIVE)
        with (
            Titles(session) as titles,
            later(1, lambda: signal_all(hosts, 2, signal.SIGSTOP)),
            later(6, lambda: signal_all(hosts, 2, signal.SIGCONT)),
        ):
            session.run(LOOP.replace("1000", "180"))
        assert "Host h2 does not answer." in titles.seen
        whole(session, 2)


def test_a_host_that_stands_still_during_a_start_is_waited_for(hosts: TestBed) -> None:
    go_on = threading.Timer(5, lambda: signal_all(hosts, 2, signal.SIGCONT))

    def progress(stage: str, done: int, total: int) -> None:
        if stage == "starting":
            signal_all(hosts, 2, signal.SIGSTOP)
            go_on.start()

    began = time.monotonic()
    try:
        with start(hosts, progress=progress) as session:
            assert time.monotonic() - began > 5
            session.run(COLLECTIVE)
            assert sums(session) == [24.0] * 4
    finally:
        go_on.join()


@pytest.mark.parametrize("what", ["ssh", "parent"])
def test_a_connection_that_ends_is_reported_and_what_ran_there_ends(
    hosts: TestBed, temporary: Path, what: str
) -> None:
    """By the end of ssh on this machine, or of the process at its other end."""

    def kill() -> None:
        if what == "parent":
            os.kill(min(process.pid for process in hosts.processes(2)), signal.SIGKILL)
        else:
            commands = processes_in(temporary)
            (pid,) = (p for p, c in commands.items() if c.startswith("ssh ") and " h2 " in c)
            os.kill(pid, signal.SIGKILL)

    with start(hosts) as session:
        session.run(COLLECTIVE)
        began = time.monotonic()
        with (
            Titles(session) as titles,
            later(1, kill),
            pytest.raises(ProcessError, match="host h2"),
        ):
            session.run(LOOP)
        assert titles.seen["Processes 2, 3 are lost."] - began - 1 < SHOWN_SECONDS
        wait_for(lambda: not hosts.processes(2), within_s=GRACE_SECONDS)
