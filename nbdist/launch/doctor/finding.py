"""One finding of the doctor, and the facts that a check judges by."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from nbdist.contract.checkup import Checkup, Connection, OldPython

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
    """How far a host's clock is ahead of this machine's, and how exactly that is known; in seconds."""

    ahead_s: float
    within_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Examined:
    """One host after the examination.

    Attributes:
      host: Its name, as it was asked for.
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

    `platform` is what the processes compute on, None if that is not known. `launcher` is who starts them:
    variables of `slurm`, `mpi` or `tpu` are then expected there. `starting` is False if the processes already run,
    so that they are not taken for leftovers.
    """

    framework: str = "jax"
    backend: str | None = None
    platform: str | None = None
    launcher: str = "ssh"
    starting: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """Everything by which a check judges one host. `reported` are its facts, complete or not."""

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
        """Whether any other machine than the kernel's takes part."""
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
