"""Findings of the doctor: the facts that a check judges by, the problems that it finds, and the report of them.

A check gets a `Case` and yields `Finding`s. An `Examination` shows them, as text for a person and as JSON for a
script. `refused` makes the finding about a host that could not be examined, from ssh's messages.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from nbdist.contract.checkup import Checkup, Connection, OldPython
from nbdist.contract.wire import encode
from nbdist.launch.launchers.ssh import shell
from nbdist.launch.model.framework import framework_names
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.notation import bytes_text, count_text, seconds_text
from nbdist.spelling import option

Severity = Literal["error", "warning"]

THIS_MACHINE = "this machine"


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One problem that the doctor found.

    With an error, a start would fail or compute wrongly; a warning is worth knowing. `where` is the file, program
    or connection concerned, and `do` what to type, or what to do if nothing can be typed.
    """

    severity: Severity
    host: str
    what: str
    where: str
    do: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Clock:
    """How far a host's clock is ahead of this machine's, and the accuracy of that; in seconds."""

    ahead_s: float
    within_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One host after the examination.

    Attributes:
      host: Its name, as the user gave it.
      shell: The text to type before a command that is to run there, such as `"ssh h1 "`; empty for this machine.
      facts: The facts it has reported; None if `trouble` says why there are none.
      clock: None if the clock was not compared.
      reached: How its attempts to connect to other hosts ended, by their name.
      reachable: How this machine's attempt to connect to it ended; None if there was none.
      processes: How many processes are to run there.
    """

    host: str
    shell: str = ""
    facts: Checkup | OldPython | None = None
    trouble: Finding | None = None
    clock: Clock | None = None
    reached: Mapping[str, Connection] = field(default_factory=dict)
    reachable: Connection | None = None
    processes: int = 1

    @property
    def local(self) -> bool:
        """Whether the host is the kernel's own machine."""
        return not self.shell


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """The processes to be started.

    `platform` is what the processes compute on, None if that is not known. `launcher` starts them: with `slurm`,
    `mpi` or `tpu`, the launcher's variables are expected on the hosts. `starting` is False if the processes
    already run, so that they are not taken for leftovers.
    """

    framework: str = "jax"
    backend: str | None = None
    platform: str | None = None
    launcher: str = "ssh"
    starting: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All data from which a check judges one host. `reported` are its facts, complete or not."""

    examined: Examined
    reported: Checkup | OldPython
    kernel: Checkup
    everyone: Sequence[Examined]
    needs: Needs

    @property
    def facts(self) -> Checkup:
        """The full facts; must not be read for a host whose Python is too old to report them."""
        assert isinstance(self.reported, Checkup)
        return self.reported

    @property
    def all_facts(self) -> list[Checkup]:
        """The facts of all hosts that have reported full facts."""
        return [one.facts for one in self.everyone if isinstance(one.facts, Checkup)]

    @property
    def spread(self) -> bool:
        """Whether a machine other than the kernel's takes part."""
        return any(not one.local for one in self.everyone)

    def error(self, what: str, *, where: str, do: str) -> Finding:
        """Return a finding about this host with which a start would fail."""
        return self._finding("error", what, where, do)

    def warning(self, what: str, *, where: str, do: str) -> Finding:
        """Return a finding about this host that is worth knowing."""
        return self._finding("warning", what, where, do)

    def there(self, command: str) -> str:
        """Return the text to type to run a command on this host."""
        return on_host(self.examined.shell, command)

    def _finding(self, severity: Severity, what: str, where: str, do: str) -> Finding:
        return Finding(severity=severity, host=self.examined.host, what=what, where=where, do=do)


def on_host(shell: str, command: str) -> str:
    """Return a command as typed here, quoted if a second shell would split or expand it."""
    if not shell or not set(command) & set("'\"|;&$<>*?()[]{}~\\`"):
        return shell + command
    if "'" in command and not set(command) & set('"$`\\'):
        return f'{shell}"{command}"'
    return shell + shlex.quote(command)


SHOWN = ("nbdist", *framework_names())


@dataclass(frozen=True, slots=True, kw_only=True)
class Examination:
    """Report of the doctor: all hosts, the findings, and how many seconds the examination took."""

    everyone: Sequence[Examined]
    findings: Sequence[Finding]
    seconds: float

    @property
    def exit_code(self) -> int:
        """Exit status of `nbdist doctor`: 1 if a start would fail, 0 if at most warnings were found."""
        return int(any(finding.severity == "error" for finding in self.findings))

    def text(self) -> str:
        """Return a line per host, then the findings."""
        names = max(len(one.host) for one in self.everyone)
        states = {one.host: self._state(one.host) for one in self.everyone}
        width = max(map(len, states.values()))
        lines = [
            f"{one.host:{names}}  {states[one.host]:{width}}  {_described(one.facts)}".rstrip()
            for one in self.everyone
        ]
        lines += [findings_text(self.findings)] if self.findings else []
        seen = count_text(len(self.everyone), "host")
        lines.append(f"{seen} examined in {seconds_text(self.seconds)}")
        return "\n".join(lines)

    def json(self) -> str:
        """Return one object: `ok`, `seconds`, `findings` and, by host, `facts`."""
        found: dict[str, Any] = {
            "ok": self.exit_code == 0,
            "seconds": round(self.seconds, 3),
            "findings": [asdict(finding) for finding in self.findings],
            "hosts": {one.host: one.facts and encode(one.facts) for one in self.everyone},
        }
        return json.dumps(found, indent=2)

    def _state(self, host: str) -> str:
        kinds = [finding.severity for finding in self.findings if finding.host == host]
        counts = [(kinds.count(kind), kind) for kind in ("error", "warning") if kind in kinds]
        return ", ".join(count_text(count, kind) for count, kind in counts) or "ok"


def findings_text(findings: Sequence[Finding]) -> str:
    """Return three lines per finding: what, where, what to type; advice that is no command has its own line."""
    blocks = [
        f"\n{finding.severity}: {finding.host}: {finding.what}\n"
        f"  where: {finding.where}\n"
        f"{do_text(finding.do)}"
        for finding in findings
    ]
    return "\n".join(blocks) + "\n"


_THEN = re.compile(r"(?:, |; )(?=(?:and|or|then|once|when|to|before|where) )")


def do_text(do: str) -> str:
    """Return the command to type, on a line that can be pasted, and further advice below it."""
    command, *more = _THEN.split(do, maxsplit=1)
    return "\n".join([f"  type:  {command}", *(f"         {part}" for part in more)])


def _described(facts: Checkup | OldPython | None) -> str:
    if facts is None:
        return ""
    parts = [f"Python {'.'.join(map(str, facts.python))}"]
    if isinstance(facts, OldPython):
        return parts[0]
    parts += [f"{name} {version}" for name in SHOWN if (version := facts.packages.get(name))]
    available = facts.memory.available
    parts += [f"{bytes_text(available)} free"] if available is not None else []
    return ", ".join(parts)


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


def refused(host: AskedHost, options: SshOptions, status: int | None, words: str) -> Finding:
    """Return why there are no facts of a host.

    Args:
      host: The host.
      options: How it was reached.
      status: The exit status of ssh; None if it had not ended when time was up.
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
