"""Hosts as people write them, and the ssh command that comes of each."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from nbdist.errors import OptionError
from nbdist.launch.model.host_list import AskedHost, parse_hosts, read_hosts
from nbdist.launch.model.ssh import SshOptions, ssh_command, ssh_target


def test_a_host_can_have_a_user_a_port_and_a_number_of_processes() -> None:
    assert parse_hosts("h1, me@h2:2 ,me@h-3.example:2222:4,[fe80::1]:2,10.0.0.1") == (
        AskedHost(name="h1"),
        AskedHost(name="h2", user="me", processes=2),
        AskedHost(name="h-3.example", user="me", port=2222, processes=4),
        AskedHost(name="fe80::1", processes=2),
        AskedHost(name="10.0.0.1"),
    )


@pytest.mark.parametrize(
    ("text", "said"),
    [
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


def test_a_file_has_a_host_a_line_as_here_or_as_open_mpi_has_it(tmp_path: Path) -> None:
    path = tmp_path / "hosts"
    path.write_text("# all of them\n\nh1:2  # the first\nme@h2 slots=4\nh3:2222:1\nh4\n")
    assert read_hosts(path) == parse_hosts("h1:2,me@h2:4,h3:2222:1,h4")


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


def test_ssh_asks_nothing_shares_nothing_and_gets_what_was_said_of_the_host() -> None:
    (host,) = parse_hosts("me@h1:2222:1")
    command = ssh_command(host, SshOptions(python="python", config="/c"), ["echo", "a b", "$HOME"])
    assert command[-3:] == ["--", "h1", "echo 'a b' '$HOME'"]
    text = shlex.join(command)
    for words in ("-oBatchMode=yes", "-F /c", "-p 2222", "-l me", "-oControlPath=none", "-T"):
        assert f" {words} " in text


def test_where_a_name_leads_is_what_the_ssh_configuration_says(tmp_path: Path) -> None:
    config = tmp_path / "config"
    config.write_text("Host large\n  HostName 192.0.2.7\n  Port 2200\n")
    options = SshOptions(python="python", config=str(config))
    assert ssh_target(AskedHost(name="large"), options) == ("192.0.2.7", 2200)
    assert ssh_target(AskedHost(name="large", port=99), options) == ("192.0.2.7", 99)
    assert ssh_target(AskedHost(name="other"), options) == ("other", 22)
