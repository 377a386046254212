"""Hosts that could not be examined: ssh's own words, what they mean, and what to type."""

from __future__ import annotations

import pytest

from nbdist.launch.doctor.examine import clock
from nbdist.launch.doctor.finding import on_host, refused
from nbdist.launch.launchers.ssh import shell
from nbdist.launch.model.hosts import AskedHost, SshOptions

H1 = AskedHost(name="h1")
OPTIONS = SshOptions(python="/opt/python")

CHANGED = """@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
@    WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED!     @
@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@@
Offending ED25519 key in /home/ada/.ssh/known_hosts:3
Host key verification failed.
"""


@pytest.mark.parametrize(
    ("words", "meaning", "do"),
    [
        (
            "ssh: Could not resolve hostname h1: Name or service not known",
            "there is no such host",
            "getent hosts h1; then correct --hosts",
        ),
        (
            "ada@h1: Permission denied (publickey).",
            "it does not take this user's keys",
            "ssh-copy-id h1, or ssh-add",
        ),
        (
            "No ED25519 host key is known for 10.0.0.11 and you have requested strict checking.\n"
            "Host key verification failed.",
            "its key is not known here",
            "ssh h1, and compare the key",
        ),
        (CHANGED, "another machine answers", "ssh-keygen -R h1, when you know"),
        (
            "ssh: connect to host h1 port 22: Connection refused",
            "no ssh server listens there",
            "sudo systemctl start ssh",
        ),
        (
            "ssh: connect to host h1 port 22: Connection timed out",
            "nothing answers there",
            "ssh h1, once the host is up",
        ),
        (
            "ssh: connect to host h1 port 22: No route to host",
            "nothing answers there",
            "ssh h1, once the host is up",
        ),
        (
            "Can't open user config file /nowhere: No such file or directory",
            "the configuration of ssh cannot be read",
            "ssh h1 -v true",
        ),
        ("something new", "ssh does not work: something new", "ssh h1 -v true"),
        ("", "it ended without output", "ssh h1 -v true"),
    ],
)
def test_what_ssh_says_is_reported_with_what_it_means(words: str, meaning: str, do: str) -> None:
    finding = refused(H1, OPTIONS, 255, words)
    assert (finding.severity, finding.host) == ("error", "h1")
    assert meaning in finding.what
    said = [line for line in words.splitlines() if not line.startswith("@@")]
    assert finding.what.endswith(said[-1] if said else "without output")
    assert finding.do.startswith(do)


@pytest.mark.parametrize(
    ("status", "words"),
    [
        (127, "bash: line 1: /opt/python: No such file or directory"),
        (126, "bash: line 1: /opt/python: Permission denied"),
    ],
)
def test_a_python_that_is_not_there_is_no_fault_of_ssh(status: int, words: str) -> None:
    finding = refused(H1, OPTIONS, status, words)
    assert "no Python" in finding.what and finding.what.endswith(f"/opt/python: {words}")
    assert finding.where == "/opt/python on h1"
    assert finding.do.startswith("ssh h1 'command -v python3', then ")


def test_a_python_that_fails_by_itself_is_reported_with_its_last_words() -> None:
    finding = refused(H1, OPTIONS, 1, "Fatal Python error: init_fs_encoding")
    assert "exit code 1" in finding.what
    assert finding.what.endswith("Fatal Python error: init_fs_encoding")
    assert finding.do.startswith("ssh h1 /opt/python -V; ")


def test_a_host_that_is_silent_is_reported_as_such() -> None:
    finding = refused(H1, OPTIONS, None, "")
    assert "did not answer" in finding.what


def test_what_is_to_be_typed_reaches_the_host_as_nbdist_does() -> None:
    host = AskedHost(name="h1", user="ada", port=2200, ssh=("-oHostKeyAlias=w",))
    options = SshOptions(python="python3", config="my config")
    assert shell(host, options) == "ssh -F 'my config' -p 2200 -oHostKeyAlias=w ada@h1 "
    finding = refused(host, options, 255, "Permission denied (publickey).")
    assert finding.do.startswith("ssh-copy-id -F 'my config' -p 2200 -oHostKeyAlias=w ada@h1, ")
    changed = refused(host, options, 255, CHANGED)
    assert changed.do.startswith("ssh-keygen -R '[h1]:2200', ")
    assert shell(AskedHost(name="localhost"), options) == ""


@pytest.mark.parametrize(
    ("command", "typed"),
    [
        ("kill 7", "ssh h1 kill 7"),
        ("ps | head", "ssh h1 'ps | head'"),
        ("sh -c 'a b'", "ssh h1 \"sh -c 'a b'\""),
        ("echo '$HOME'", "ssh h1 'echo '\"'\"'$HOME'\"'\"''"),
    ],
)
def test_a_command_is_quoted_for_the_second_shell(command: str, typed: str) -> None:
    assert on_host("ssh h1 ", command) == typed
    assert on_host("", command) == command


def test_a_clock_is_known_within_half_the_time_of_asking() -> None:
    found = clock(105.0, 100.0, 101.0)
    assert (found.ahead_s, found.within_s) == (4.5, 0.5)
