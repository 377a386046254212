"""What the doctor has to say: one finding, and what it is found out from."""

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
    """One thing that is not as it should be.

    With an error a start would fail, or compute wrongly; a warning is worth knowing. `where` is the file,
    program or connection that it is about, and `do` what to type, or to do where nothing can be typed.
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
    """One host after it was looked at.

    Attributes:
      host: Its name, as it was asked for.
      shell: What a person types before a command that is to run there, such as `"ssh h1 "`; empty for this
        machine.
      facts: What it has reported; None where `trouble` says why not.
      clock: None where it was not compared.
      reached: How it could connect to others, by their name.
      reachable: How this machine could connect to it; None where that was not tried.
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
        """Whether it is the kernel's own machine."""
        return not self.shell


@dataclass(frozen=True, slots=True, kw_only=True)
class Needs:
    """What is to be started.

    `platform` is what the processes compute on, None where that is not known. `launcher` is who starts them:
    variables of `slurm`, `mpi` or `tpu` belong there then.
    `starting` is False where the processes already run, so that they are not taken for leftovers.
    """

    framework: str = "jax"
    backend: str | None = None
    platform: str | None = None
    launcher: str = "ssh"
    starting: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """All there is to judge one host by. `reported` are its facts, as far as there are any."""

    examined: Examined
    reported: Checkup | OldPython
    kernel: Checkup
    everyone: Sequence[Examined]
    needs: Needs

    @property
    def facts(self) -> Checkup:
        """All facts; not asked for of a host whose Python is too old for them."""
        assert isinstance(self.reported, Checkup)
        return self.reported

    @property
    def all_facts(self) -> list[Checkup]:
        """Those of all hosts that have reported them."""
        return [one.facts for one in self.everyone if isinstance(one.facts, Checkup)]

    @property
    def spread(self) -> bool:
        """Whether more than the kernel's machine takes part."""
        return any(not one.local for one in self.everyone)

    def error(self, what: str, *, where: str, do: str) -> Finding:
        """A finding about this host without which a start would succeed."""
        return self._finding("error", what, where, do)

    def warning(self, what: str, *, where: str, do: str) -> Finding:
        """A finding about this host that is worth knowing."""
        return self._finding("warning", what, where, do)

    def there(self, command: str) -> str:
        """What a person types to run a command on this host."""
        return on_host(self.examined.shell, command)

    def _finding(self, severity: Severity, what: str, where: str, do: str) -> Finding:
        return Finding(severity=severity, host=self.examined.host, what=what, where=where, do=do)


def on_host(shell: str, command: str) -> str:
    """A command as typed here; quoted where a second shell would take it apart."""
    if not shell or not set(command) & set("'\"|;&$<>*?()[]{}~\\`"):
        return shell + command
    if "'" in command and not set(command) & set('"$`\\'):
        return f'{shell}"{command}"'
    return shell + shlex.quote(command)
