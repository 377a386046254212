"""ssh: connections to named hosts, as the user has configured ssh."""

from __future__ import annotations

import shlex
import socket
import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from nbdist.errors import LaunchError
from nbdist.launch.agents import AgentSpec
from nbdist.launch.launchers import AGENT
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.launch.model.plan import Placement
from nbdist.machine.ports import LOOPBACK, own_address
from nbdist.spelling import option


def ssh_agent(host: AskedHost, options: SshOptions) -> AgentSpec:
    """Return the way to one agent, through one connection that lasts as long as the agent."""
    command = ssh_command(host, options, [options.python, *AGENT])
    return AgentSpec(
        name=host.name, command=tuple(command), remote=True, host=host, options=options
    )


def ssh_command(host: AskedHost, options: SshOptions, remote: Sequence[str]) -> list[str]:
    """Return the command line that runs `remote` on a host, without a terminal and without asking anything.

    Args:
      host: The host.
      options: How it is reached.
      remote: The words of the command; this function quotes them for the host's shell.
    """
    command = ["ssh", *_forwardings(options.forwarded), *ssh_options(options)]
    command += [*options.extra, *host.ssh]
    if host.port is not None:
        command += ["-p", str(host.port)]
    if host.user is not None:
        command += ["-l", host.user]
    return [*command, "--", host.name, shlex.join(remote)]


def _forwardings(ports: Sequence[int]) -> list[str]:
    if not ports:
        return ["-oClearAllForwardings=yes"]
    # A shared connection would keep forwarding after the end of this session.
    return ["-oControlPath=none", *(f"-R{LOOPBACK}:{port}:{LOOPBACK}:{port}" for port in ports)]


def ssh_options(options: SshOptions) -> list[str]:
    """Return options of ssh for any host: no prompts, and no access from the host to this machine.

    An open connection that the user shares (`ControlPath`) is used, since nobody is present to log in with a
    second factor. nbdist never opens or closes such a connection (`ControlMaster=no`); if it is gone, ssh connects
    without it.
    """
    config = ["-F", options.config] if options.config is not None else []
    own = ["-oControlMaster=no", "-oForwardAgent=no", "-oForwardX11=no"]
    # Some settings for interactive logins make ssh refuse a command (ssh_config(5), OpenSSH 7.6).
    own += ["-oRemoteCommand=none", "-oRequestTTY=no"]
    return ["-oBatchMode=yes", *config, *own]


def ssh_target(host: AskedHost, options: SshOptions) -> tuple[str, int]:
    """Return the name or address, and the port, to which ssh would connect by the user's configuration.

    Raises:
      OSError: There is no ssh on this machine.
    """
    command = ssh_command(host, options, [])
    found = subprocess.run(
        [command[0], "-G", *command[1:-1]], capture_output=True, text=True, check=False
    )
    values = dict(line.split(" ", 1) for line in found.stdout.splitlines() if " " in line)
    return values.get("hostname", host.name), int(values.get("port", "22"))


def shell(host: AskedHost, options: SshOptions) -> str:
    """Return the text to type before a command for this host, with a space at the end; empty for this machine."""
    if host.local:
        return ""
    words = ["ssh"]
    words += ["-F", options.config] if options.config else []
    words += ["-p", str(host.port)] if host.port else []
    words += host.ssh
    return shlex.join([*words, f"{host.user}@{host.name}" if host.user else host.name]) + " "


LOOK_UPS = 16
"""How many names of hosts are looked up at once."""


def _own_address(host: AskedHost, placement: Placement) -> str | None:
    target, _ = ssh_target(host, placement.ssh or SshOptions(python=""))
    return own_address(target)


def controller_address(placement: Placement) -> str:
    """Return the address of this machine under which hosts reach the controller.

    It is the address from which this machine reaches the first host whose name resolves; a host that is reached
    only through others (`ProxyJump`) does not count.

    Raises:
      LaunchError: No address is found, or hosts are reached from different addresses.
    """
    if placement.controller_address is not None:
        return placement.controller_address
    found: dict[str, list[str]] = {}
    hosts = [host for host in placement.hosts if not host.local]
    # Looking up a name that does not exist may take seconds.
    with ThreadPoolExecutor(max(1, min(len(hosts), LOOK_UPS))) as pool:
        addresses = pool.map(lambda host: _own_address(host, placement), hosts)
        for host, address in zip(hosts, addresses, strict=True):
            if address is not None:
                found.setdefault(address, []).append(host.name)
    for near in placement.job.near if placement.job is not None else ():
        address = own_address(near)
        if address is not None:
            found.setdefault(address, []).append(near)
    found = {address: names for address, names in found.items() if not address.startswith("127.")}
    if len(found) > 1:
        ways = "; ".join(f"{', '.join(names)} from {address}" for address, names in found.items())
        raise LaunchError(
            f"This machine reaches the hosts from different addresses: {ways}. Name one that all of them reach "
            f"with {option('controller_address')}."
        )
    if found:
        return next(iter(found))
    address = own_address(socket.gethostname())
    if address is None or address.startswith("127."):
        # Sends no packet; any outside address shows which of this machine's addresses is used.
        address = own_address("192.0.2.1")
    if address is None or address.startswith("127."):
        raise LaunchError(
            "No address of this machine was found that other hosts could reach. Name one with "
            f"{option('controller_address')}."
        )
    return address
