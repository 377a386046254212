"""The test bed: what tests of many hosts rely on."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.testbed import install, number
from tests.testbed.fixtures import need
from tests.testbed.hosts import ROOT, TestBed
from tests.testbed.number import LARGEST, LINKS, claim, clear_abandoned, folder, links, lock, prefix
from tests.testbed.slurm import Slurm
from tests.waiting import WAIT_SECONDS, has_ended, wait_for


def ssh(bed: TestBed, *words: str) -> subprocess.CompletedProcess[str]:
    command = ("ssh", "-F", str(bed.ssh_config), *words)
    return subprocess.run(
        command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False
    )


def round_trip_s(address: str, port: int = 22, *, timeout_s: float = 5.0) -> float:
    """How long a connection takes; TimeoutError when nothing comes back."""
    start = time.monotonic()
    socket.create_connection((address, port), timeout=timeout_s).close()
    return time.monotonic() - start


def test_a_host_answers_through_ssh_with_a_name_processes_and_files_of_its_own(
    hosts: TestBed,
) -> None:
    done = ssh(
        hosts,
        "h2",
        "hostname; echo $PPID; echo here > /tmp/mark; echo here > /root/mark; getent hosts h3",
    )
    name, parent, found = done.stdout.splitlines()
    assert (name, found.split()) == ("h2", [hosts.address(3), "h3"])
    assert int(parent) < 1000
    assert hosts.files_left(2, "/*/mark") == [Path("/root/mark"), Path("/tmp/mark")]
    assert hosts.files_left(3, "/*/mark") == []
    assert hosts.written_at_home(2) == [Path("/root/.bashrc"), Path("/root/mark")]
    assert not Path("/tmp/mark").exists() and not Path("/root/mark").exists()


def test_a_process_left_on_a_host_is_seen_until_it_ends(hosts: TestBed) -> None:
    with subprocess.Popen(hosts.command(1, "sleep", "1000")) as left:
        wait_for(lambda: [p.command for p in hosts.processes(1)] == [("sleep", "1000")])
        assert hosts.processes(2) == []
        os.kill(hosts.processes(1)[0].pid, signal.SIGKILL)
        assert left.wait(WAIT_SECONDS) != 0
    wait_for(lambda: hosts.processes(1) == [])


def test_delay_holds_packets_each_way_until_it_is_taken_off(hosts: TestBed) -> None:
    hosts.delay(1, 100)
    assert round_trip_s(hosts.address(1)) >= 0.2
    hosts.delay(1, 0)
    assert min(round_trip_s(hosts.address(1)) for _ in range(5)) < 0.2


def test_a_slow_host_takes_longer_for_the_same_work(hosts: TestBed) -> None:
    """Held against the time its processor worked, as this machine is slow at times, too."""
    work = "import time as t\ns = t.monotonic()\nwhile t.process_time() < .2: pass\nprint(t.monotonic() - s)"
    hosts.slow(2, 10)
    assert float(ssh(hosts, "h2", shlex.join((sys.executable, "-I", "-c", work))).stdout) > 0.5
    hosts.slow(2, 1)
    # What ssh has run there may be about to end.
    wait_for(lambda: hosts.processes(2) == [])


def all_links() -> set[str]:
    """The numbers of this machine's network links, which are never used again, unlike names."""
    found = set()
    for path in LINKS.glob("*/ifindex"):
        with contextlib.suppress(OSError):  # it is just being removed
            found.add(path.read_text().strip())
    return found


def test_two_beds_are_up_at_once_and_nothing_is_left_of_the_one_that_ends(hosts: TestBed) -> None:
    with TestBed(1) as other:
        assert other.number != hosts.number
        assert other.exec(1, "hostname", "-I").stdout.split() == [other.address(1)]
        other.delay(1, 1)
        made = {(LINKS / name / "ifindex").read_text().strip() for name in links(other.number)}
        (other.folder / "mark").touch()
        processes = psutil.Process().children(recursive=True)
    assert len(made) == 3  # Bridge, cable and relay.
    assert not made & all_links()
    assert not (other.folder / "mark").exists()
    # Janitor, holder of the host, process 1, sshd, relay.
    assert sum(not process.is_running() for process in processes) >= 5
    assert ssh(hosts, "h1", "hostname").stdout == "h1\n"


KILLED = """
import json, os, signal, psutil
from tests.testbed.hosts import TestBed
from tests.testbed.number import LARGEST, LINKS, claim, clear_abandoned, folder, links, lock, prefix
from tests.testbed.slurm import Slurm
bed = TestBed(1).__enter__()
bed.delay(1, 1)
slurm = Slurm(bed).__enter__()
mark = bed.folder / "mark"
mark.touch()
made = [(LINKS / name / "ifindex").read_text().strip() for name in links(bed.number)]
processes = [(p.pid, p.create_time()) for p in psutil.Process().children(recursive=True)]
print(json.dumps([str(mark), made, processes]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def is_running(pid: int, create_time: float) -> bool:
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        return process.create_time() == create_time and not has_ended(process)
    return False


def test_nothing_is_left_of_a_bed_with_slurm_whose_process_was_killed(slurm: Slurm) -> None:
    done = subprocess.run(
        (sys.executable, "-c", KILLED),
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    mark, made, processes = json.loads(done.stdout)
    assert len(processes) >= 9  # Janitor, holder, process 1, sshd, relay, munged, three of Slurm.
    wait_for(lambda: not any(is_running(*process) for process in processes))
    wait_for(lambda: not set(made) & all_links() and not Path(mark).exists())
    assert slurm.run("srun", "hostname").stdout == "h1\n"


@pytest.fixture
def other_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As for somebody with another /tmp: this one's folders and locks cannot be seen."""
    monkeypatch.setattr(number, "STATE", tmp_path / "state")


@pytest.mark.usefixtures("other_state")
def test_a_bed_of_somebody_with_another_tmp_is_left_alone(hosts: TestBed) -> None:
    taken, descriptor = claim()
    os.close(descriptor)
    assert taken != hosts.number
    assert clear_abandoned() == [taken]
    assert ssh(hosts, "h1", "hostname").stdout == "h1\n"


@pytest.mark.usefixtures("other_state", "hosts")
def test_what_was_left_when_all_processes_of_a_bed_were_killed_is_removed() -> None:
    os.close(lock_of(LARGEST))
    (folder(LARGEST) / "h1").mkdir(parents=True)
    subprocess.run(("ip", "link", "add", f"{prefix(LARGEST)}br", "type", "bridge"), check=True)
    assert clear_abandoned() == [LARGEST]
    assert links(LARGEST) == []
    assert not folder(LARGEST).exists()


def lock_of(wanted: int) -> int:
    descriptor = lock(wanted)
    assert descriptor is not None
    return descriptor


def test_a_machine_that_forbids_hosts_skips_their_tests_but_never_in_ci(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sentence = "Test hosts need root."
    monkeypatch.delenv("CI", raising=False)
    with pytest.raises(pytest.skip.Exception, match=sentence):
        need(sentence)
    monkeypatch.setenv("CI", "true")
    with pytest.raises(pytest.fail.Exception, match=sentence):
        need(sentence)


def test_no_service_is_started_by_what_is_installed_and_others_policy_stays(tmp_path: Path) -> None:
    policy = tmp_path / "policy-rc.d"
    with install.no_services(policy):
        assert subprocess.run([policy], check=False).returncode == 101
    assert not policy.exists()
    policy.write_text("theirs")
    with install.no_services(policy):
        pass
    assert policy.read_text() == "theirs"
