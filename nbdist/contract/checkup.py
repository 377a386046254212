"""What `nbdist.machine.checkup` has found on a machine, as it is read.

That module may run where there is no nbdist and writes plain JSON; who gets it reads it as these. Sizes are in
bytes; None stands for what cannot be found out on that system.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Any

from nbdist.contract.wire import Plain, decode, encode


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnName:
    """What a machine's own name leads to; `own` are those of the addresses that are the machine's."""

    addresses: tuple[str, ...]
    own: tuple[str, ...]
    error: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SeenAs:
    """The addresses of both ends of the ssh connection under which it ran."""

    client: str
    server: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeMemory:
    """The machine's, after the limits of its control groups."""

    total: int | None
    available: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Temporary:
    """The folder for temporary files; why it takes none, and where they go `instead`."""

    path: str
    free: int | None
    error: str | None
    instead: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Folder:
    """A folder that should exist."""

    path: str
    exists: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Accelerators:
    """How many GPUs and TPU chips the system shows."""

    gpus: int
    tpus: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Lock:
    """A lock file of libtpu."""

    path: str
    owner: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FoundProcess:
    """A process; `devices` are those of a TPU that it holds."""

    pid: int
    user: str
    command: str
    devices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class BackEnd:
    """A back end that is up in the process; `platform` is empty where it does not say which."""

    framework: str
    platform: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """How an attempt to connect ended: after so many milliseconds, or with an error.

    `address` is where it was tried, where who asked for it has noted that.
    """

    ms: float | None = None
    error: str | None = None
    address: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OldPython:
    """All that is known of a host whose Python is too old for more."""

    python: tuple[int, ...]
    executable: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkup:
    """The facts of one machine, and of the environment of the process that found them.

    Attributes:
      host: Its name.
      python: The version, in three numbers.
      executable: Of Python.
      user: Who ran it.
      name: What its own name leads to.
      seen_as: None where it did not run under ssh.
      packages: Versions by module; None of one that is not there, empty of one whose version is not known.
      distributions: By module, what it came with, where that has another name.
      variables: By which frameworks and schedulers are given a cluster.
      memory: See `FreeMemory`.
      temporary: See `Temporary`.
      folder: The one that was asked for.
      accelerators: See `Accelerators`.
      locks: Lock files of libtpu.
      holders: Processes that hold a TPU's device.
      leftovers: Processes of nbdist that nothing will ever end.
      firewalls: Programs that set one up.
      port_range: First and last of the ports that the system gives out.
      time: Its clock, in Unix seconds.
      connected: What could be reached, in the order asked; None where nothing was asked for.
      listening: Address and port of its listener; None where there is none.
      listening_error: Why not.
      backends: Those that are up, of the kernel's process; None of others.
    """

    host: str
    python: tuple[int, ...]
    executable: str
    user: str
    name: OwnName
    seen_as: SeenAs | None
    packages: Mapping[str, str | None]
    distributions: Mapping[str, str]
    variables: Mapping[str, str]
    memory: FreeMemory
    temporary: Temporary
    folder: Folder | None
    accelerators: Accelerators
    locks: tuple[Lock, ...]
    holders: tuple[FoundProcess, ...]
    leftovers: tuple[FoundProcess, ...]
    firewalls: tuple[str, ...]
    port_range: tuple[int, ...] | None
    time: float
    connected: tuple[Connection, ...] | None = None
    listening: tuple[str, int] | None = None
    listening_error: str | None = None
    backends: tuple[BackEnd, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """A clock, in Unix seconds."""

    time: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Connected:
    """What could be reached, in the order asked."""

    connected: tuple[Connection, ...]


def read_checkup(data: Plain) -> Checkup | OldPython:
    """What a host has answered first.

    Raises:
      WireError: It has another shape.
    """
    old = isinstance(data, dict) and "host" not in data and "python" in data
    kind: Any = OldPython if old else Checkup
    found: Checkup | OldPython = decode(kind, data)
    return found


def plain_checkup(found: Checkup | OldPython) -> Plain:
    """The same as plain data again, without what it does not say."""
    may_lack = {one.name for one in fields(found) if one.default is not MISSING}
    return {
        name: value
        for name, value in encode(found).items()
        if value is not None or name not in may_lack
    }
