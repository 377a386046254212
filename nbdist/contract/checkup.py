"""Facts that `nbdist.machine.checkup` finds on a machine, as typed values.

That module may run where there is no nbdist, so it writes plain JSON; the receiver reads the JSON into these
classes. Sizes are in bytes. A field is None if the system does not tell.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from nbdist.contract.wire import Data, Plain, decode


class OwnName(Data):
    """The addresses that a machine's own name resolves to; `own` are those that belong to the machine itself."""

    addresses: tuple[str, ...]
    own: tuple[str, ...]
    error: str | None


class SeenAs(Data):
    """The addresses of both ends of the ssh connection under which the checkup ran."""

    client: str
    server: str


class FreeMemory(Data):
    """The machine's memory, after the limits of its control groups."""

    total: int | None
    available: int | None


class Temporary(Data):
    """The folder for temporary files; `error` says why it takes none, `instead` where they go then."""

    path: str
    free: int | None
    error: str | None
    instead: str | None


class Folder(Data):
    """A folder that should exist."""

    path: str
    exists: bool


class Accelerators(Data):
    """How many GPUs and TPU chips the system shows."""

    gpus: int
    tpus: int


class Lock(Data):
    """A lock file of libtpu."""

    path: str
    owner: str


class FoundProcess(Data):
    """A process; `devices` are those of a TPU that it holds."""

    pid: int
    user: str
    command: str
    devices: tuple[str, ...] = ()


class BackEnd(Data):
    """A back end that is up in the process; `platform` is empty if the framework does not name it."""

    framework: str
    platform: str


class Connection(Data):
    """How an attempt to connect ended: after `ms` milliseconds, or with an error.

    `address` is the address that was tried, if the process that asked for the attempt has noted it.
    """

    ms: float | None = None
    error: str | None = None
    address: str | None = None


class OldPython(Data):
    """The only facts about a host whose Python is too old for a checkup."""

    python: tuple[int, ...]
    executable: str


class Checkup(Data, omit_defaults=True):
    """The facts of one machine, and of the environment of the process that found them.

    Attributes:
      host: The machine's name.
      python: The version, in three numbers.
      executable: The path of Python.
      user: The user that ran the checkup.
      name: The addresses that the machine's own name resolves to.
      seen_as: None if the checkup did not run under ssh.
      packages: Versions by module; None if the module is missing, empty if its version is not known.
      distributions: By module, the distribution that it came with, if that has another name.
      variables: Variables by which frameworks and schedulers describe a cluster.
      memory: See `FreeMemory`.
      temporary: See `Temporary`.
      folder: The folder that was asked for.
      accelerators: See `Accelerators`.
      locks: Lock files of libtpu.
      holders: Processes that hold a TPU's device.
      leftovers: Processes of nbdist that nothing will ever end.
      firewalls: Programs that set up a firewall.
      port_range: First and last of the ports that the system gives out.
      time: The machine's clock, in Unix seconds.
      connected: How attempts to connect ended, in the order asked; None if none was asked for.
      listening: Address and port of the checkup's listener; None if there is none.
      listening_error: Why there is no listener.
      backends: Back ends that are up in the kernel's process; None for other processes.
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


class Reading(Data):
    """A clock, in Unix seconds."""

    time: float


class Connected(Data):
    """How attempts to connect ended, in the order asked."""

    connected: tuple[Connection, ...]


def read_checkup(data: Plain) -> Checkup | OldPython:
    """Return the first answer of a host.

    Raises:
      WireError: The data has another shape.
    """
    old = isinstance(data, dict) and "host" not in data and "python" in data
    kind: Any = OldPython if old else Checkup
    found: Checkup | OldPython = decode(kind, data)
    return found
