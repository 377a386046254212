"""Reasons why a host could not be examined: ssh's own words, and what to type for each."""

from __future__ import annotations

import re
import shlex

from nbdist.launch.doctor.finding import Finding
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.spelling import option

NO_ANSWER = "did not answer"

SSH_ENDED = 255
NOT_FOUND = 127
NOT_EXECUTABLE = 126

_NOISE = re.compile(r"Warning: Permanently added|^@+$|^\s*$|^Pseudo-terminal")

_KNOWN: tuple[tuple[str, str, str], ...] = (
    (
        r"REMOTE HOST IDENTIFICATION HAS CHANGED",
        "another machine answers, or the host was set up again",
        "{keygen}, when you know why its key is another one, then {ssh}",
    ),
    (r"Host key verification failed", "its key is not known here", "{ssh}, and compare the key"),
    (
        r"Could not resolve hostname",
        "there is no such host",
        "{getent}; then correct {hosts}, or add the host to ~/.ssh/config or /etc/hosts",
    ),
    (
        r"Permission denied",
        "it does not take this user's keys",
        "{copy}, or ssh-add where the key has a passphrase",
    ),
    (
        r"Too many authentication failures",
        "too many keys were offered",
        "{ssh} -o IdentitiesOnly=yes",
    ),
    (
        r"Connection refused",
        "no ssh server listens there",
        "sudo systemctl start ssh, on that host; or give its port as HOST:PORT:PROCESSES",
    ),
    (
        r"timed out|No route to host|Network is unreachable",
        "nothing answers there: the host is down, or a firewall drops what is sent to it",
        "{ssh}, once the host is up",
    ),
    (
        r"Bad configuration option|terminating, \d+ bad configuration|Can't open user config file",
        "the configuration of ssh cannot be read",
        "{ssh} -v true, and correct the file it names",
    ),
)


def shell(host: AskedHost, options: SshOptions) -> str:
    """Return the text to type before a command for this host, with a space at the end; empty for this machine."""
    if host.local:
        return ""
    words = ["ssh"]
    words += ["-F", options.config] if options.config else []
    words += ["-p", str(host.port)] if host.port else []
    words += host.ssh
    return shlex.join([*words, f"{host.user}@{host.name}" if host.user else host.name]) + " "


def refused(host: AskedHost, options: SshOptions, status: int | None, words: str) -> Finding:
    """Return why there are no facts of a host.

    Args:
      host: The host.
      options: How it was reached.
      status: The exit status of ssh; None if it still waited when time was up.
      words: The standard error of ssh, or of the command there.
    """
    said = [line.strip() for line in words.splitlines() if not _NOISE.search(line)]
    last = " ".join(said[-3:])
    if status in (NOT_FOUND, NOT_EXECUTABLE):
        return _no_python(host, options, last)
    if status not in (SSH_ENDED, None):
        return Finding(
            severity="error",
            host=host.name,
            what=(
                f"Python ended with exit code {status} before it could check anything: "
                f"{last or 'without output'}"
            ),
            where=options.python,
            do=(
                f"{shell(host, options)}{options.python} -V; then name a Python that works with "
                f"{option('remote_python')}"
            ),
        )
    for pattern, meaning, do in _KNOWN:
        if re.search(pattern, words):
            return _ssh(host, options, f"ssh does not work, {meaning}: {last}", do)
    if status is None:
        what = f"the host {NO_ANSWER} in time{': ' + last if last else ''}"
        return _ssh(host, options, what, "{ssh} true, to see how long it takes")
    return _ssh(
        host, options, f"ssh does not work: {last or 'it ended without output'}", "{ssh} -v true"
    )


def _ssh(host: AskedHost, options: SshOptions, what: str, do: str) -> Finding:
    command = shell(host, options).strip()
    name = f"[{host.name}]:{host.port}" if host.port else host.name
    return Finding(
        severity="error",
        host=host.name,
        what=what,
        where=f"ssh from this machine to {host.name}",
        do=do.format(
            ssh=command,
            copy=command.replace("ssh", "ssh-copy-id", 1),
            keygen=f"ssh-keygen -R {shlex.quote(name)}",
            hosts=option("hosts"),
            getent=f"getent hosts {shlex.quote(host.name)}",
        ),
    )


def _no_python(host: AskedHost, options: SshOptions, said: str) -> Finding:
    return Finding(
        severity="error",
        host=host.name,
        what=f"there is no Python at {options.python}: {said}",
        where=f"{options.python} on {host.name}",
        do=(
            f"{shell(host, options)}'command -v python3', then name what it prints with "
            f"{option('remote_python')}"
        ),
    )
