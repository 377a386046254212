"""Hosts of a start: named by a person, and described by what their agents report.

A person writes `h1:2,user@node[01-64]:2`, or the hosts line by line in a file. Brackets hold ranges as Slurm
writes them: `node[01-64,70]`, `rack[1-2]n[1-4]`.
"""

from __future__ import annotations

import re
import socket
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import prod
from pathlib import Path

from msgspec import structs

from nbdist.contract.events import Host
from nbdist.errors import OptionError
from nbdist.notation import NumberRange, numbers_count, read_ranges, refuse_too_many
from nbdist.spelling import option

RANGES_FORM = "numbers and ranges between [ and ], such as node[01-64,70]"

_BRACKETS = re.compile(r"\[([^\[\]]*)\]")
_PART = re.compile(r"(?:[^,\[]|\[[^\]]*\]?)+")
_NUMBERED = re.compile(r"(.*?)([0-9]{1,18})")


@dataclass(frozen=True, slots=True)
class HostPattern:
    """A name with any number of brackets: `texts` stand before, between and after the `brackets`."""

    texts: tuple[str, ...]
    brackets: tuple[tuple[NumberRange, ...], ...]

    def __len__(self) -> int:
        return prod(map(numbers_count, self.brackets))

    def __iter__(self) -> Iterator[str]:
        """Yield the names; the numbers of the last brackets change first."""
        before, *after = self.texts
        numbers = [[t for each in ranges for t in each.texts()] for ranges in self.brackets]
        for chosen in product(*numbers):
            yield before + "".join(map("".join, zip(chosen, after, strict=True)))


def read_pattern(name: str) -> HostPattern:
    """Read one name, which may have brackets; the other characters are not checked.

    Raises:
      ValueError: Brackets are empty or do not pair up, a range in them cannot be read (see
        `nbdist.notation.read_range`), or more than 100,000 names. The text continues a sentence about the name.
    """
    parts = _BRACKETS.split(name)
    texts, insides = parts[::2], parts[1::2]
    if any(sign in text for text in texts for sign in "[]"):
        raise ValueError(f"its brackets do not pair up. Expected {RANGES_FORM}.")
    if not all(inside.strip() for inside in insides):
        raise ValueError(f"its brackets are empty. Expected {RANGES_FORM}.")
    pattern = HostPattern(tuple(texts), tuple(tuple(read_ranges(inside)) for inside in insides))
    refuse_too_many(prod(map(numbers_count, pattern.brackets)), "hosts")
    return pattern


def split_names(text: str) -> list[str]:
    """Return the parts of a list, without empty ones; commas inside brackets do not separate."""
    return [part.strip() for part in _PART.findall(text) if part.strip()]


def compress(names: Iterable[str]) -> str:
    """Return a list that stands for these names in their order: `n1`, `n2`, `m` give `n[1-2],m`.

    Only numbers at the ends of names are put together, so that Slurm 22.05 can read it, too.
    """
    halves = [(match[1], match[2]) if (match := _NUMBERED.fullmatch(n)) else (n, "") for n in names]
    return ",".join(
        _together(prefix, [number for _, number in group])
        for (prefix, _), group in groupby(halves, key=lambda half: (half[0], bool(half[1])))
    )


def _together(prefix: str, numbers: list[str]) -> str:
    if len(numbers) == 1 or not numbers[0]:
        return ",".join(prefix + number for number in numbers)
    runs: list[list[str]] = []
    for number in numbers:
        # The next number, written as `NumberRange.texts` writes it after the one before.
        if runs and number == str(int(runs[-1][-1]) + 1).zfill(len(runs[-1][-1])):
            runs[-1].append(number)
        else:
            runs.append([number])
    written = [run[0] if len(run) == 1 else f"{run[0]}-{run[-1]}" for run in runs]
    return f"{prefix}[{','.join(written)}]"


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
      OptionError: The file cannot be read, or holds no host, a line that cannot be read, or hosts that
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
    """Return all hosts, each named once; check their number before creating them."""
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


def host_counts(hosts: Sequence[AskedHost], processes: int | None) -> list[tuple[str, int]]:
    """Return how many processes each host gets: its own number, else `processes` divided evenly, else one.

    Raises:
      OptionError: The numbers do not agree, or cannot be divided.
    """
    names = [socket.gethostname() if host.local else host.name for host in hosts]
    given = [host.processes for host in hosts]
    known = [number for number in given if number is not None]
    unnumbered = len(given) - len(known)
    listed = ", ".join(
        name if n is None else f"{name}:{n}" for name, n in zip(names, given, strict=True)
    )
    each = 1
    if processes is not None:
        left = processes - sum(known)
        if left < unnumbered or (unnumbered == 0 and left) or (unnumbered and left % unnumbered):
            raise OptionError(
                f"{option('processes', processes)} with hosts {listed}: these numbers do not agree. Leave "
                f"{option('processes')} out, or give hosts without numbers that {processes} can be divided "
                "among."
            )
        each = left // unnumbered if unnumbered else 1
    return [(name, each if n is None else n) for name, n in zip(names, given, strict=True)]


SILENT_SECONDS = 3.0
"""Seconds without a message after which a host is shown as silent; each host sends a heartbeat once a second."""


class HostInfo(Host):
    """Facts that an agent has reported about its host.

    `asked_s` and `received_s` are this kernel's clock (Unix seconds) when it was asked and when it answered.
    """

    asked_s: float = 0.0
    received_s: float = 0.0

    @classmethod
    def reported(cls, host: Host, *, asked_s: float, received_s: float) -> HostInfo:
        """Return the facts of an event, with the times."""
        return cls(**structs.asdict(host), asked_s=asked_s, received_s=received_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class SshOptions:
    """How ssh reaches hosts.

    `config` is a configuration file in place of the person's own; `python` the interpreter on the hosts; `extra`
    is passed to ssh unchanged. `forwarded` are ports of this machine's loopback address that a host reaches at the
    same ports of its own.
    """

    python: str
    config: str | None = None
    extra: tuple[str, ...] = ()
    forwarded: tuple[int, ...] = ()
