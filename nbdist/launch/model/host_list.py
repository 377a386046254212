"""Hosts as a person names them: `h1:2,user@h2:2`, or one a line in a file."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nbdist.errors import OptionError


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedHost:
    """One host: its name as the person's ssh knows it, and what was said beside it.

    `processes` is how many it gets, None where nothing was said; `user` and `port` are those to be given to
    ssh, None where its configuration decides; `ssh` are more of ssh's options for this host alone,
    `environment` variables that its processes get.
    """

    name: str
    user: str | None = None
    port: int | None = None
    processes: int | None = None
    ssh: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def local(self) -> bool:
        """Whether this machine is meant, which needs no ssh."""
        return self.name in LOCAL_NAMES and self.user is None and self.port is None


LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")

FORM = "[USER@]HOST[:PROCESSES], or [USER@]HOST:PORT:PROCESSES"

_HOST = re.compile(
    r"(?:(?P<user>[^@\s:]+)@)?(?P<name>\[[0-9a-fA-F:.]+\]|[A-Za-z0-9_.-]+)(?::(?P<first>\d+))?(?::(?P<second>\d+))?"
)


def parse_hosts(text: str, *, option: str = "--hosts") -> tuple[AskedHost, ...]:
    """Hosts separated by commas.

    Raises:
      OptionError: No host, one that cannot be read, or one that is named twice.
    """
    entries = [entry.strip() for entry in text.split(",")]
    return _each_once([_parse(entry, option) for entry in entries if entry], option)


def read_hosts(path: Path) -> tuple[AskedHost, ...]:
    """Hosts of a file: one a line, written as for `--hosts` or with `slots=N`; `#` begins a comment.

    Raises:
      OptionError: The file cannot be read, or holds no host, or a line that cannot be read.
    """
    option = f"--hosts-file {path}"
    try:
        lines = path.expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(f"{option}: cannot be read ({why}).") from error
    found = []
    for number, line in enumerate(lines, start=1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        # As Open MPI's host files have it.
        entry = ":".join([words[0], *(word.removeprefix("slots=") for word in words[1:])])
        found.append(_parse(entry, f"{option}, line {number}"))
    return _each_once(found, option)


def _parse(entry: str, option: str) -> AskedHost:
    match = _HOST.fullmatch(entry)
    if match is None or match["name"].startswith("-"):
        raise OptionError(f"{option}: {entry!r} is no host. Expected {FORM}, such as h1:2.")
    first, second = match["first"], match["second"]
    port, processes = (first, second) if second is not None else (None, first)
    if processes is not None and int(processes) < 1:
        raise OptionError(f"{option}: {entry!r} asks for no process; leave the host out instead.")
    if port is not None and not 0 < int(port) < 65536:
        raise OptionError(f"{option}: {entry!r}: {port} is no port. Expected {FORM}.")
    return AskedHost(
        name=match["name"].strip("[]"),
        user=match["user"],
        port=int(port) if port is not None else None,
        processes=int(processes) if processes is not None else None,
    )


def _each_once(hosts: Sequence[AskedHost], option: str) -> tuple[AskedHost, ...]:
    if not hosts:
        raise OptionError(f"{option}: no host is named. Expected {FORM}, such as h1:2,h2:2.")
    names = [host.name for host in hosts]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise OptionError(
            f"{option}: {doubled[0]} is named {names.count(doubled[0])} times. Name each host once, with its "
            f"number of processes, such as {doubled[0]}:{names.count(doubled[0])}."
        )
    return tuple(hosts)
