"""ssh, as the person has configured it: the command for one host, and the address a name leads to."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from nbdist.launch.model.host_list import AskedHost
from nbdist.machine.ports import LOOPBACK


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions:
    """How hosts are reached.

    `config` is a configuration file in place of the person's own; `python` the interpreter on the hosts; `extra`
    is passed to ssh unchanged. `forwarded` are ports of this machine's loopback address that a host reaches at the
    same ports of its own.
    """

    python: str
    config: str | None = None
    extra: tuple[str, ...] = ()
    forwarded: tuple[int, ...] = ()


def ssh_command(host: AskedHost, options: SshOptions, remote: Sequence[str]) -> list[str]:
    """Return the command line that runs `remote` on a host, without a terminal and without asking anything.

    Args:
      host: The host.
      options: How it is reached.
      remote: The command's words; they are quoted here for the host's shell.
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
    # A shared connection would go on forwarding when this session has ended.
    return ["-oControlPath=none", *(f"-R{LOOPBACK}:{port}:{LOOPBACK}:{port}" for port in ports)]


def ssh_options(options: SshOptions) -> list[str]:
    """Return options of ssh for any host: ssh asks nothing, and lends nothing of this machine to the host.

    An open connection that the person shares (`ControlPath`) is used, since nobody is there to log in with a
    second factor. It is never opened or closed here (`ControlMaster=no`); if it is gone, ssh connects without it.
    """
    config = ["-F", options.config] if options.config is not None else []
    own = ["-oControlMaster=no", "-oForwardAgent=no", "-oForwardX11=no"]
    # ssh refuses some settings for logging in by hand together with a command (ssh_config(5), OpenSSH 7.6).
    own += ["-oRemoteCommand=none", "-oRequestTTY=no"]
    return ["-oBatchMode=yes", *config, *own]


def ssh_target(host: AskedHost, options: SshOptions) -> tuple[str, int]:
    """Return where ssh would connect to: the host's name or address in the person's configuration, and the port.

    Raises:
      OSError: There is no ssh on this machine.
    """
    command = ssh_command(host, options, [])
    found = subprocess.run(
        [command[0], "-G", *command[1:-1]], capture_output=True, text=True, check=False
    )
    values = dict(line.split(" ", 1) for line in found.stdout.splitlines() if " " in line)
    return values.get("hostname", host.name), int(values.get("port", "22"))
