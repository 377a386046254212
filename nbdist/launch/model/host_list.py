"""Hosts as a person names them: `h1:2,user@node[01-64]:2`, or line by line in a file."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from nbdist.errors import OptionError
from nbdist.launch.model.host_names import HostPattern, read_pattern, split_names
from nbdist.ranges import refuse_too_many
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class AskedHost:
    """One host: its name as the person's ssh knows it, and the settings beside the name.

    `processes` is how many it gets, None if not given; `user` and `port` are given to ssh, None if ssh's
    configuration decides; `ssh` are further options of ssh for this host alone, `environment` variables that its
    processes get.
    """

    name: str
    user: str | None = None
    port: int | None = None
    processes: int | None = None
    ssh: tuple[str, ...] = ()
    environment: Mapping[str, str] = field(default_factory=dict, hash=False)

    @property
    def local(self) -> bool:
        """Whether the host is this machine, which needs no ssh."""
        return self.name in LOCAL_NAMES and self.user is None and self.port is None


LOCAL_NAMES = ("localhost", "127.0.0.1", "::1")

FORM = "[USER@]HOST[:PROCESSES], or [USER@]HOST:PORT:PROCESSES"

SUCH_AS = "such as h1:2 or node[01-64]:2"

_HOST = re.compile(
    r"(?:(?P<user>[^@\s:\[\]]+)@)?(?:\[(?P<address>[0-9a-fA-F:.]+)\]|(?P<name>(?:[A-Za-z0-9_.-]|\[[^\[\]]*\])+))"
    r"(?::(?P<first>[0-9]{1,9}))?(?::(?P<second>[0-9]{1,9}))?"
)

_AROUND_COMMA = re.compile(r"\s*,\s*")


def parse_hosts(text: str) -> tuple[AskedHost, ...]:
    """Return hosts separated by commas; `node[01-64]:2` are 64 hosts with 2 processes each.

    Raises:
      OptionError: No host, one that cannot be read, one that is named twice, or more than 100,000.
    """
    given = option("hosts")
    return _each_once([_parse(entry, given) for entry in split_names(text)], given)


def read_hosts(path: Path) -> tuple[AskedHost, ...]:
    """Return the hosts of a file: a line is written as for `--hosts` or with `slots=N`; `#` begins a comment.

    Raises:
      OptionError: The file cannot be read, or holds no host, a line that cannot be read, or one of those that
        `parse_hosts` refuses.
    """
    given = option("hosts_file", path)
    try:
        lines = path.expanduser().read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise OptionError(f"{given}: cannot be read ({why}).") from error
    found = []
    for number, line in enumerate(lines, start=1):
        words = _AROUND_COMMA.sub(",", line.partition("#")[0]).split()
        if not words:
            continue
        where = f"{given}, line {number}"
        # The notation of Open MPI's host files.
        slots = [word.removeprefix("slots=") for word in words[1:]]
        found += [_parse(":".join([name, *slots]), where) for name in split_names(words[0])]
    return _each_once(found, given)


def _parse(entry: str, given: str) -> tuple[HostPattern, AskedHost]:
    """Return the names that an entry stands for, and the settings of each host."""
    match = _HOST.fullmatch(entry)
    if match is None or (match["name"] or "").startswith("-"):
        _pattern(entry, entry, given)  # brackets may be what is wrong
        raise OptionError(f"{given}: {entry!r} is no host. Expected {FORM}, {SUCH_AS}.")
    first, second = match["first"], match["second"]
    port, processes = (first, second) if second is not None else (None, first)
    if processes is not None and int(processes) < 1:
        raise OptionError(f"{given}: {entry!r} asks for no process; leave the host out instead.")
    if port is not None and not 0 < int(port) < 65536:
        raise OptionError(f"{given}: {entry!r}: {port} is no port. Expected {FORM}.")
    host = AskedHost(
        name=match["address"] or match["name"],
        user=match["user"],
        port=int(port) if port is not None else None,
        processes=int(processes) if processes is not None else None,
    )
    return _pattern(host.name, entry, given), host


def _pattern(name: str, entry: str, given: str) -> HostPattern:
    try:
        return read_pattern(name)
    except ValueError as error:
        raise OptionError(f"{given}: {entry!r}: {error}") from None


def _each_once(
    entries: Sequence[tuple[HostPattern, AskedHost]], given: str
) -> tuple[AskedHost, ...]:
    """Return all hosts; they are made only when their number is known."""
    if not entries:
        raise OptionError(f"{given}: no host is named. Expected {FORM}, {SUCH_AS}.")
    try:
        refuse_too_many(sum(len(names) for names, _ in entries), "hosts")
    except ValueError as error:
        raise OptionError(f"{given}: {error}") from None
    hosts = [replace(host, name=name) for names, host in entries for name in names]
    doubled = sorted((n, times) for n, times in Counter(h.name for h in hosts).items() if times > 1)
    if doubled:
        name, times = doubled[0]
        raise OptionError(
            f"{given}: {name} is named {times} times. Name each host once, with its number of processes, such "
            f"as {name}:{times}."
        )
    return tuple(hosts)
