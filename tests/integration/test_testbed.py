"""The test bed: what tests of many hosts rely on."""

from __future__ import annotations

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.testbed import install, number
from tests.testbed.fixtures import need
from tests.testbed.hosts import ROOT, HostError, HostOptions, TestBed
from tests.testbed.mpi import mpi_arguments
from tests.testbed.number import LARGEST, LINKS, claim, clear_abandoned, folder, links, lock, prefix
from tests.testbed.possible import why_no_hosts
from tests.testbed.slurm import Slurm
from tests.waiting import WAIT_SECONDS, wait_for

SMALL = 1 << 20


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


@pytest.fixture(scope="module")
def odd(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TestBed]:
    """Hosts that differ: h1 as Debian's installer leaves it, h2 unknown to itself and full, with metadata."""
    need(why_no_hosts())
    shown = tmp_path_factory.mktemp("shown")
    (shown / "file").write_text("from this machine")
    odd_ones = {
        1: HostOptions(own_name="loopback", shown=(shown,)),
        2: HostOptions(own_name="unknown", tmp_bytes=SMALL, metadata={"agent-worker-number": "1"}),
    }
    with TestBed(2, options=odd_ones) as bed:
        yield bed


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


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("wrongkey", "Permission denied (publickey)"),
        ("unknownkey", "Host key verification failed"),
        ("nosuchhost", "Could not resolve hostname"),
        ("dead", "Connection timed out"),
    ],
)
def test_ssh_says_itself_what_is_wrong_with_a_host(hosts: TestBed, name: str, said: str) -> None:
    done = ssh(hosts, name, "true")
    assert done.returncode == 255
    assert said in done.stderr


def test_a_process_left_on_a_host_is_seen_until_it_ends(hosts: TestBed) -> None:
    with subprocess.Popen(hosts.command(1, "sleep", "1000")) as left:
        wait_for(lambda: [p.command for p in hosts.processes(1)] == [("sleep", "1000")])
        assert hosts.processes(2) == []
        os.kill(hosts.processes(1)[0].pid, signal.SIGKILL)
        assert left.wait(WAIT_SECONDS) != 0
    wait_for(lambda: hosts.processes(1) == [])


def test_packets_to_a_cut_host_vanish_until_it_is_healed(hosts: TestBed) -> None:
    hosts.cut(1)
    with pytest.raises(TimeoutError):
        round_trip_s(hosts.address(1), timeout_s=0.5)
    hosts.heal(1)
    round_trip_s(hosts.address(1))


def test_delay_holds_packets_each_way_until_it_is_taken_off(hosts: TestBed) -> None:
    hosts.delay(1, 100)
    assert round_trip_s(hosts.address(1)) >= 0.2
    hosts.delay(1, 0)
    assert min(round_trip_s(hosts.address(1)) for _ in range(5)) < 0.2


def test_a_firewall_lets_ssh_through_and_drops_the_rest_without_a_word(hosts: TestBed) -> None:
    with pytest.raises(ConnectionRefusedError):
        round_trip_s(hosts.address(1), 23)
    hosts.only_ssh(1)
    with pytest.raises(TimeoutError):
        round_trip_s(hosts.address(1), 23, timeout_s=0.5)
    assert ssh(hosts, "h1", "hostname").stdout == "h1\n"
    hosts.delay(1, 0)


def test_a_slow_host_takes_longer_for_the_same_work(hosts: TestBed) -> None:
    """Held against the time its processor worked, as this machine is slow at times, too."""
    work = "import time as t\ns = t.monotonic()\nwhile t.process_time() < .2: pass\nprint(t.monotonic() - s)"
    hosts.slow(2, 10)
    assert float(ssh(hosts, "h2", shlex.join((sys.executable, "-I", "-c", work))).stdout) > 0.5
    hosts.slow(2, 1)
    # What ssh has run there may be about to end.
    wait_for(lambda: hosts.processes(2) == [])


def test_a_crashed_host_is_silent_and_can_be_booted_again(hosts: TestBed) -> None:
    with subprocess.Popen(hosts.command(3, "sleep", "1000")) as running:
        wait_for(lambda: bool(hosts.processes(3)))
        crashed = [psutil.Process(process.pid) for process in hosts.processes(3)]
        hosts.crash(3)
        assert running.wait(WAIT_SECONDS) != 0
    assert not any(process.is_running() for process in crashed)
    with pytest.raises(TimeoutError):
        round_trip_s(hosts.address(3), timeout_s=0.5)
    with pytest.raises(HostError, match="Host h3 is not running"):
        hosts.exec(3, "true")
    hosts.boot(3)
    assert ssh(hosts, "h3", "hostname").stdout == "h3\n"


def test_host_names_can_be_as_wrong_as_on_real_hosts(odd: TestBed) -> None:
    assert odd.exec(1, "getent", "ahostsv4", "h1").stdout.split()[0] == "127.0.1.1"
    assert odd.exec(2, "getent", "ahostsv4", "h2").stdout == ""
    assert odd.exec(2, "hostname").stdout == "h2\n"


def test_a_folder_of_this_machine_is_seen_on_the_host_it_is_shown_to(
    odd: TestBed, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.getbasetemp() / "shown0" / "file"
    assert odd.exec(1, "cat", str(path)).stdout == "from this machine"
    if path.is_relative_to("/tmp"):
        assert odd.exec(2, "cat", str(path)).returncode != 0


def test_the_disk_of_a_host_can_be_full(odd: TestBed) -> None:
    done = odd.exec(2, "dd", "if=/dev/zero", "of=/tmp/large", "bs=1M", "count=2")
    assert "No space left on device" in done.stderr


def test_a_metadata_server_answers_on_its_host_alone(odd: TestBed) -> None:
    ask = "import http.client as h; c = h.HTTPConnection('metadata.google.internal', timeout=5)\n"
    ask += "c.request('GET', '/computeMetadata/v1/instance/attributes/agent-worker-number', headers={})\n"
    ask += "r = c.getresponse(); print(r.status, r.getheader('Metadata-Flavor'), r.read().decode())"
    asked = (sys.executable, "-I", "-c", ask.replace("{}", "{'Metadata-Flavor': 'Google'}"))
    wait_for(lambda: odd.exec(2, *asked).stdout == "200 Google 1\n")
    assert odd.exec(2, sys.executable, "-I", "-c", ask).stdout.startswith("403 Google")
    assert "gaierror" in odd.exec(1, *asked).stderr


def all_links() -> set[str]:
    """The numbers of this machine's network links, which are never used again, unlike names."""
    found = set()
    for path in LINKS.glob("*/ifindex"):
        try:
            found.add(path.read_text().strip())
        except OSError:
            continue  # It is just being removed.
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
    try:
        process = psutil.Process(pid)
        return bool(
            process.create_time() == create_time and process.status() != psutil.STATUS_ZOMBIE
        )
    except psutil.NoSuchProcess:
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


def test_slurm_runs_tasks_on_the_hosts_and_says_why_a_job_waits(slurm: Slurm) -> None:
    done = slurm.run("srun", "--nodes=3", "sh", "-c", "echo $SLURM_PROCID $(hostname)")
    assert sorted(done.stdout.splitlines()) == ["0 h1", "1 h2", "2 h3"]
    assert slurm.run("salloc", "--nodes=2", "srun", "hostname").stdout.count("h") == 2
    submitted = slurm.run(
        "sbatch", "--parsable", "--partition=closed", "--output=/dev/null", "--wrap=true"
    )
    assert f"{submitted.stdout.strip()} PENDING PartitionDown" in slurm.jobs()
    running = slurm.run(
        "sbatch", "--parsable", "--output=/dev/null", "--wrap=sleep 1000"
    ).stdout.strip()
    wait_for(lambda: f"{running} RUNNING None" in slurm.jobs())
    slurm.cancel_all()
    assert slurm.bed.processes(1) == []


def test_mpirun_starts_on_the_hosts_through_their_ssh(mpi_hosts: TestBed) -> None:
    command = ("mpirun", *mpi_arguments(mpi_hosts), "--host", "h1,h2", "hostname")
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert sorted(done.stdout.split()) == ["h1", "h2"], done.stderr


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
