"""Hosts as people write them, and the ssh command that comes of each."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import pytest

from nbdist.errors import OptionError
from nbdist.launch.launchers.ssh import ssh_command, ssh_target
from nbdist.launch.model.hosts import AskedHost, SshOptions, parse_hosts, read_hosts


def test_a_host_can_have_a_user_a_port_and_a_number_of_processes() -> None:
    assert parse_hosts("h1, me@h2:2 ,me@h-3.example:2222:4,[fe80::1]:2,10.0.0.1") == (
        AskedHost(name="h1"),
        AskedHost(name="h2", user="me", processes=2),
        AskedHost(name="h-3.example", user="me", port=2222, processes=4),
        AskedHost(name="fe80::1", processes=2),
        AskedHost(name="10.0.0.1"),
    )


@pytest.mark.parametrize(
    ("text", "same"),
    [
        ("node[08-10,070]", "node08,node09,node10,node070"),
        ("rack[1-2]n[1-2]:2", "rack1n1:2,rack1n2:2,rack2n1:2,rack2n2:2"),
        ("10.0.0.[1-2]:8,h1", "10.0.0.1:8,10.0.0.2:8,h1"),
        ("me@node[1,3].example:2222:4", "me@node1.example:2222:4,me@node3.example:2222:4"),
        ("h1, n[1, 2-3] ,[::1]:2", "h1,n1,n2,n3,[::1]:2"),
        ("n[0-4:2],", "n0,n2,n4"),
        ("[1-2]n", "1n,2n"),
    ],
)
def test_ranges_in_brackets_stand_for_many_hosts(text: str, same: str) -> None:
    assert parse_hosts(text) == parse_hosts(same)
    assert len(parse_hosts(text)) == same.count(",") + 1


def test_addresses_in_brackets_are_no_ranges() -> None:
    assert parse_hosts("[::1],me@[fe80::1]:22:4,[::ffff:10.0.0.1]:2,[10.0.0.1]") == (
        AskedHost(name="::1"),
        AskedHost(name="fe80::1", user="me", port=22, processes=4),
        AskedHost(name="::ffff:10.0.0.1", processes=2),
        AskedHost(name="10.0.0.1"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("n[]", r"--hosts: 'n\[\]': its brackets are empty.*such as node\[01-64,70\]"),
        ("n[ ]:2", "its brackets are empty"),
        ("h1,n[3-1]", r"'n\[3-1\]': the range 3-1 runs backwards. Write 1-3"),
        ("n[1-2", r"'n\[1-2': its brackets do not pair up"),
        ("n[1-2,h2", r"'n\[1-2,h2': its brackets do not pair up"),
        ("n1],h2", r"'n1\]': its brackets do not pair up"),
        ("n[[1-2]]", "its brackets do not pair up"),
        ("[::1", "its brackets do not pair up"),
        ("[fe80::1-4]", "'fe80::1-4' is no number and no range"),
        ("n[1,,2]", r"a number is missing. Expected numbers and ranges, such as 0-3,5 or 0-10:2"),
        ("n[a-b]", "'a-b' is no number and no range"),
        ("n[1-2:0]", "has a step of 0"),
        ("n[1-999999999]", "these are 999,999,999 numbers. At most 100,000"),
        ("r[1-1000]n[1-1000]", r"'r\[1-1000\]n\[1-1000\]': these are 1,000,000 hosts. At most"),
        (
            "a[1-99999]b[1-99999]c[1-99999]d[1-99999]",
            "d.*': these are 99,996,000,059,999,600,001 hosts",
        ),
        ("n[1-60000],m[1-60000]", "--hosts: these are 120,000 hosts. At most 100,000"),
        ("n[1-2]:0", "asks for no process"),
        ("n[1-2]:65536:1", "65536 is no port"),
        ("-n[1-2]", "is no host"),
        ("n[1-2];reboot", "is no host"),
        ("u[1-2]@h", r"is no host. Expected \[USER@\]HOST.*such as h1:2 or node\[01-64\]:2"),
        ("n[1-3],n2", "n2 is named 2 times"),
        ("n[1,1]", "n1 is named 2 times"),
        ("", "no host is named"),
        (" , ", "no host is named"),
        ("h1:two", r"'h1:two' is no host. Expected \[USER@\]HOST"),
        ("h1 h2", "'h1 h2' is no host"),
        ("-oProxyCommand=x", "is no host"),
        ("me@-h1", "is no host"),
        ("h1;reboot", "is no host"),
        ("h1:0", "asks for no process"),
        ("h1:22:0", "asks for no process"),
        ("h1:65536:1", "65536 is no port"),
        ("h1:0:1", "0 is no port"),
        ("h1,h2:1,h1:3", "h1 is named 2 times.*such as h1:2"),
    ],
)
def test_what_is_no_list_of_hosts_is_refused_with_the_form_that_is(text: str, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        parse_hosts(text)


def test_as_many_hosts_as_are_allowed_are_read() -> None:
    names = [host.name for host in parse_hosts("n[000001-100000]")]
    assert (names[0], names[-1], len(set(names))) == ("n000001", "n100000", 100_000)


def test_a_file_has_a_host_a_line_as_here_or_as_open_mpi_has_it(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# all of them\n\nh1:2  # the first\nme@h2 slots=4\nh3:2222:1\nh4\n")
    assert read_hosts(path) == parse_hosts("h1:2,me@h2:4,h3:2222:1,h4")


def test_a_line_of_a_file_can_stand_for_several_hosts(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("me@n[01-02] slots=4\nrack[1-2]n1:2  # [3-4]\nm1, m[2, 4] ,o slots=3\n")
    assert read_hosts(path) == parse_hosts("me@n[01-02]:4,rack[1-2]n1:2,m1:3,m[2,4]:3,o:3")
    path.write_text("h1\nn[1,2\n")
    with pytest.raises(OptionError, match=rf"{path}, line 2: 'n\[1,.*do not pair up"):
        read_hosts(path)
    path.write_text("n[1-60000]\nm[1-60000]\n")
    with pytest.raises(OptionError, match=rf"{path}: these are 120,000 hosts"):
        read_hosts(path)


def test_errors_in_a_file_name_the_line(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("h1\nh2:many\n")
    with pytest.raises(OptionError, match=rf"{path}, line 2: 'h2:many' is no host"):
        read_hosts(path)
    path.write_bytes(b"h1\xff\n")
    with pytest.raises(OptionError, match="cannot be read"):
        read_hosts(path)
    with pytest.raises(OptionError, match="cannot be read"):
        read_hosts(tmp_path / "nothing")
    path.write_text("# nobody\n")
    with pytest.raises(OptionError, match="no host is named"):
        read_hosts(path)


def test_only_this_machine_by_its_own_names_needs_no_ssh() -> None:
    local = {host.name: host.local for host in parse_hosts("localhost,127.0.0.1,h1,me@here")}
    assert local == {"localhost": True, "127.0.0.1": True, "h1": False, "here": False}
    assert not parse_hosts("me@localhost")[0].local
    assert not parse_hosts("localhost:2222:1")[0].local


def test_ssh_asks_nothing_lends_nothing_and_gets_what_was_said_of_the_host() -> None:
    (host,) = parse_hosts("me@h1:2222:1")
    command = ssh_command(host, SshOptions(python="python", config="/c"), ["echo", "a b", "$HOME"])
    assert command[-3:] == ["--", "h1", "echo 'a b' '$HOME'"]
    text = shlex.join(command)
    for words in ("-oBatchMode=yes", "-F /c", "-p 2222", "-l me", "-oForwardAgent=no"):
        assert f" {words} " in text


def test_ports_are_forwarded_from_loopback_to_loopback_through_a_connection_of_its_own() -> None:
    (host,) = parse_hosts("h1")
    alone = ssh_command(host, SshOptions(python="python"), ["true"])
    assert "-oClearAllForwardings=yes" in alone and not any(w.startswith("-R") for w in alone)
    command = ssh_command(host, SshOptions(python="python", forwarded=(7, 8)), ["true"])
    forwarded = [word for word in command if word.startswith("-R")]
    assert forwarded == ["-R127.0.0.1:7:127.0.0.1:7", "-R127.0.0.1:8:127.0.0.1:8"]
    assert "-oControlPath=none" in command and "-oClearAllForwardings=yes" not in command


def test_ssh_uses_the_persons_shared_connection_and_runs_no_command_of_their_configuration(
    tmp_path: Path,
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "Host h1\n  RemoteCommand tmux\n  RequestTTY force\n  ControlMaster auto\n  ControlPath /c/%r@%h\n"
    )
    command = ssh_command(
        AskedHost(name="h1", user="me"), SshOptions(python="p", config=str(config)), ["true"]
    )
    said = subprocess.run(
        [command[0], "-G", *command[1:]], capture_output=True, text=True, check=True
    ).stdout.splitlines()
    values = dict(line.split(" ", 1) for line in said if " " in line)
    assert values["controlpath"] == "/c/me@h1" and values["controlmaster"] == "false"
    assert values["requesttty"] == "false"
    assert "remotecommand" not in values  # ssh refuses one beside a command


def test_where_a_name_leads_is_what_the_ssh_configuration_says(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host large\n  HostName 192.0.2.7\n  Port 2200\n")
    options = SshOptions(python="python", config=str(config))
    assert ssh_target(AskedHost(name="large"), options) == ("192.0.2.7", 2200)
    assert ssh_target(AskedHost(name="large", port=99), options) == ("192.0.2.7", 99)
    assert ssh_target(AskedHost(name="other"), options) == ("other", 22)
