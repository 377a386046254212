"""The doctor on real hosts, each with something wrong; what it says to type is typed."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nbdist import cli
from nbdist.launch.doctor import examine
from tests.hosts.left import Left
from tests.integration.notebook import Notebook
from tests.testbed.fixtures import need
from tests.testbed.hosts import HostOptions, TestBed
from tests.testbed.possible import why_no_hosts
from tests.waiting import WAIT_SECONDS, wait_for

STRAYS = "echo Welcome; export SLURM_JOB_ID=12 SLURM_JWT=word TF_CONFIG='{}' https_proxy=http://ada:word@p:1\n"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seen on all hosts as here."""
    return tmp_path_factory.mktemp("doctor")


@pytest.fixture(scope="module")
def hosts(folder: Path) -> Iterator[TestBed]:
    """Three hosts: h1 is well, h2 believes its name to be its own, h3 does not know it and is full."""
    need(why_no_hosts())
    options = {
        2: HostOptions(own_name="loopback"),
        3: HostOptions(own_name="unknown", tmp_bytes=1 << 20),
    }
    with TestBed(3, options=options, shown=[folder]) as bed:
        yield bed


@pytest.fixture(scope="module", autouse=True)
def nothing_left(hosts: TestBed, left: Left) -> Iterator[None]:
    """Whatever was examined, nothing runs there or lies there afterwards."""
    yield
    left.nothing()


class Reported:
    """What the doctor says of hosts, as a script reads it."""

    def __init__(self, text: str, code: int) -> None:
        self.code = code
        self.all = json.loads(text)

    def of(self, host: str) -> list[dict[str, Any]]:
        return [finding for finding in self.all["findings"] if finding["host"] == host]

    def one(self, host: str, what: str) -> dict[str, Any]:
        found = [finding for finding in self.of(host) if what in finding["what"]]
        assert len(found) == 1, self.all["findings"]
        return found[0]


class Doctor:
    """Asks the doctor, as in a shell."""

    def __init__(self, bed: TestBed, capsys: pytest.CaptureFixture[str]) -> None:
        self.bed = bed
        self.capsys = capsys

    def __call__(self, hosts: str, *words: str) -> Reported:
        given = ["--hosts", hosts, "--ssh-config", str(self.bed.ssh_config), "--json", *words]
        code = cli.main(["doctor", *given])
        return Reported(self.capsys.readouterr().out, code)


@pytest.fixture
def doctor(hosts: TestBed, capsys: pytest.CaptureFixture[str]) -> Doctor:
    """The doctor for these hosts."""
    return Doctor(hosts, capsys)


def typed(command: str) -> subprocess.CompletedProcess[str]:
    """Types what the doctor says; there is no sudo for root to need."""
    plain = command.replace("sudo ", "")
    return subprocess.run(plain, shell=True, capture_output=True, text=True, timeout=60, check=True)


def test_a_host_that_is_well_is_reported_so_and_reaches_this_machine(doctor: Doctor) -> None:
    reported = doctor("h1")
    assert (reported.code, reported.of("h1")) == (0, [])
    facts = reported.all["hosts"]["h1"]
    assert facts["host"] == "h1"
    assert facts["executable"] == sys.executable
    assert facts["seen_as"]["client"] == doctor.bed.head_address


def test_a_name_that_leads_to_loopback_or_nowhere_is_reported_with_what_puts_it_right(
    doctor: Doctor,
) -> None:
    reported = doctor("h1,h2,h3")
    trap = reported.one("h2", "its own name 'h2' leads to 127.0.1.1")
    assert trap["severity"] == "warning"
    # The file is mounted here, so it cannot be replaced by another, as sed would.
    changed = typed(trap["do"].replace("sed -i.bak", "sed")).stdout
    assert f"{doctor.bed.address(2)} h2" in changed.splitlines()
    typed(reported.one("h3", "its own name 'h3' cannot be resolved")["do"])
    assert doctor("h3").all["hosts"]["h3"]["name"]["own"] == [doctor.bed.address(3)]


def test_every_way_ssh_can_fail_is_reported_in_its_own_words_beside_hosts_that_work(
    doctor: Doctor, monkeypatch: pytest.MonkeyPatch
) -> None:
    reported = doctor("h1,wrongkey,unknownkey,nosuchhost,dead")
    assert reported.code == 1
    assert reported.of("h1") == []
    said = {
        "wrongkey": "it does not take this user's keys: ",
        "unknownkey": "its key is not known here: ",
        "nosuchhost": "there is no such host: ssh: Could not resolve hostname",
        "dead": "nothing answers there: the host is down, or a firewall drops what is sent to it: ssh: ",
    }
    for host, meaning in said.items():
        finding = reported.one(host, f"ssh does not work, {meaning}")
        assert finding["severity"] == "error"
        assert finding["where"].endswith(host)
        assert reported.all["hosts"][host] is None


def test_a_python_that_is_not_there_or_has_no_nbdist_is_reported_with_what_to_type(
    doctor: Doctor, folder: Path
) -> None:
    finding = doctor("h1", "--remote-python", "/opt/none/python").one("h1", "there is no Python at")
    assert "/opt/none/python: No such file" in finding["what"]
    assert typed(finding["do"].partition(", then")[0]).stdout.strip()

    subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder / "bare"], check=True)
    bare = str(folder / "bare" / "bin" / "python")
    finding = doctor("h1,h2", "--remote-python", bare).one("h2", " is missing; ")
    assert finding["what"].startswith("nbdist ")
    assert f" {bare} -m pip install nbdist==" in finding["do"]


def test_a_host_that_takes_the_login_and_says_nothing_is_given_up(
    doctor: Doctor, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(examine, "ANSWER_SECONDS", 1.0)
    reported = doctor("h1", "--remote-python", silent(folder))
    assert reported.one("h1", "the host did not")["severity"] == "error"


def silent(folder: Path) -> str:
    """A Python that reads, and never says anything."""
    path = folder / "silent"
    path.write_text("#!/bin/sh\nexec cat > /dev/null\n")
    path.chmod(0o755)
    return str(path)


def test_variables_of_other_clusters_are_named_and_secrets_are_not_shown(
    doctor: Doctor, hosts: TestBed
) -> None:
    # Shells that sshd starts read this file first.
    before = hosts.exec(1, "cat", "/root/.bashrc").stdout
    write(hosts, 1, "/root/.bashrc", STRAYS + before)
    try:
        reported = doctor("h1")
    finally:
        write(hosts, 1, "/root/.bashrc", before)
    assert reported.one("h1", "SLURM_JOB_ID=12")["severity"] == "warning"
    assert reported.one("h1", "TF_CONFIG is set")["severity"] == "warning"
    assert reported.one("h1", "https_proxy set")["do"] == "%dist_init --env https_proxy="
    assert reported.all["hosts"]["h1"]["variables"]["https_proxy"] == "http://p:1"
    assert "word" not in json.dumps(reported.all)


def write(bed: TestBed, i: int, path: str, text: str) -> None:
    done = bed.exec(i, "sh", "-c", f"printf %s {shlex.quote(text)} > {path}")
    assert done.returncode == 0, done.stderr


def test_a_connection_that_is_blocked_is_reported_for_both_its_ends(
    doctor: Doctor, hosts: TestBed
) -> None:
    # What h2 says to h1 is dropped, answers included.
    assert hosts.exec(2, "ip", "route", "add", "blackhole", hosts.address(1)).returncode == 0
    reported = doctor("h1,h2")
    finding = reported.one("h1", "cannot connect to h2: no answer within 1.5 s")
    assert (finding["severity"], finding["where"]) == ("error", "h1 → h2, any TCP port")
    assert hosts.address(1) in finding["do"]
    reported.one("h2", "cannot connect to h1: ")
    assert hosts.exec(2, "ip", "route", "del", "blackhole", hosts.address(1)).returncode == 0
    assert doctor("h1,h2").of("h1") == []


def test_a_host_that_is_let_in_only_to_sshd_is_reported_with_the_direction(
    doctor: Doctor, hosts: TestBed
) -> None:
    rules = (
        ("pref", "1", "ipproto", "tcp", "sport", "22", "lookup", "main"),
        ("pref", "2", "ipproto", "tcp", "to", hosts.head_address, "prohibit"),
    )
    for rule in rules:
        done = hosts.exec(1, "ip", "rule", "add", *rule)
        assert done.returncode == 0, done.stderr
    try:
        reported = doctor("h1")
    finally:
        for rule in rules:
            hosts.exec(1, "ip", "rule", "del", *rule)
    finding = reported.one(
        "h1", f"cannot connect to the notebook's machine at {hosts.head_address}: "
    )
    assert finding["severity"] == "error"
    # Neither do its answers come back.
    back = reported.one("h1", "this machine cannot connect to it: no answer within 1.5 s")
    assert (back["severity"], back["where"]) == ("warning", "this machine → h1, any TCP port")


def test_a_host_that_ssh_reaches_through_another_is_asked_to_call_this_machine_itself(
    doctor: Doctor, hosts: TestBed, folder: Path
) -> None:
    config = folder / "through"
    jump = f"Host far\n  HostName {hosts.address(2)}\n  ProxyJump h1\n"
    config.write_text(jump + hosts.ssh_config.read_text())
    reported = doctor("far", "--ssh-config", str(config))
    assert reported.all["hosts"]["far"]["seen_as"]["client"] == hosts.address(1)
    assert not any("cannot connect" in finding["what"] for finding in reported.of("far"))


def test_what_an_earlier_session_left_is_named_and_ends_with_what_is_to_be_typed(
    doctor: Doctor, hosts: TestBed, folder: Path
) -> None:
    code = "import time; time.sleep(600)"
    words = shlex.join([sys.executable, "-c", code, "nbdist.agent.pretended"])
    hosts.exec(1, "sh", "-c", f"{words} < /dev/null > /dev/null 2>&1 & touch /tmp/libtpu_lockfile")
    reported = doctor("h1")
    lock = reported.one("h1", "a lock file of libtpu is left, owned by root")
    assert (lock["severity"], lock["where"]) == ("warning", "/tmp/libtpu_lockfile")
    left = reported.one("h1", "is left over from an earlier session")
    assert "nbdist.agent.pretended" in left["what"]
    for finding in (lock, left):
        typed(finding["do"])
    wait_for(lambda: doctor("h1").of("h1") == [])


def test_a_full_disk_is_reported_of_that_host_alone(doctor: Doctor, hosts: TestBed) -> None:
    assert "MB free in /tmp" in doctor("h3").one("h3", "free in /tmp")["what"]
    hosts.exec(3, "sh", "-c", "head -c 2000000 /dev/zero > /tmp/full")
    reported = doctor("h1,h3")
    hosts.exec(3, "rm", "/tmp/full")
    finding = reported.one("h3", "no file can be written in /tmp: No space left on device")
    assert finding["what"].endswith(" /root instead")
    assert reported.of("h1") == []


def test_an_interrupt_ends_the_examination_and_what_it_has_started(
    hosts: TestBed, folder: Path
) -> None:
    words = ["doctor", "--hosts", "h1", "--remote-python", silent(folder)]
    command = [sys.executable, "-m", "nbdist.cli", *words, "--ssh-config", str(hosts.ssh_config)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as running:
        wait_for(lambda: any("cat" in str(p) for p in hosts.processes(1)))
        running.send_signal(signal.SIGINT)
        said = running.communicate(timeout=WAIT_SECONDS)
    assert (running.returncode, *said) == (130, b"", b"")


def test_the_magic_examines_hosts_that_are_named_else_those_of_the_session(
    hosts: TestBed, temporary: Path, folder: Path
) -> None:
    with Notebook(folder=folder) as notebook:
        notebook.good("%load_ext nbdist")
        config = f"--ssh-config {hosts.ssh_config}"
        named = notebook.good(f"%dist_doctor --hosts h1,nosuchhost {config}").text
        assert "h1          ok" in named
        assert "error: nosuchhost: ssh does not work" in named
        notebook.good(f"%dist_init --hosts h1:1 {config}")
        running = notebook.good("%dist_doctor").text
        assert running.startswith("h1  ")
        assert "1 host examined" in running
