"""Hosts of a start: named by a person, reached with ssh, and described by what their agents report.

A person writes `h1:2,user@node[01-64]:2`, or the hosts line by line in a file. Brackets hold ranges as Slurm
writes them: `node[01-64,70]`, `rack[1-2]n[1-4]`. ssh is used as the person has configured it.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby, product
from math import prod
from pathlib import Path

from nbdist.contract.checkup import Checkup
from nbdist.errors import OptionError
from nbdist.machine.ports import LOOPBACK
from nbdist.ranges import NumberRange, count, read_ranges, refuse_too_many
from nbdist.spelling import option
from nbdist.version import __version__

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
        return prod(map(count, self.brackets))

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
        `nbdist.ranges.read_range`), or more than 100,000 names. The text continues a sentence about the name.
    """
    parts = _BRACKETS.split(name)
    texts, insides = parts[::2], parts[1::2]
    if any(sign in text for text in texts for sign in "[]"):
        raise ValueError(f"its brackets do not pair up. Expected {RANGES_FORM}.")
    if not all(inside.strip() for inside in insides):
        raise ValueError(f"its brackets are empty. Expected {RANGES_FORM}.")
    pattern = HostPattern(tuple(texts), tuple(tuple(read_ranges(inside)) for inside in insides))
    refuse_too_many(prod(map(count, pattern.brackets)), "hosts")
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


SILENT_SECONDS = 3.0
"""Time without a message after which a host is shown as silent; each sends a sign of life once a second."""


@dataclass
class HostInfo:
    """Facts that an agent has reported about its host.

    `ports` are reserved there for its processes; at `listening` it can be reached until it learns that all have
    tried. `cwd` is the working folder its processes begin in. `asked_s` and `received_s` are this kernel's clock
    (Unix seconds) when it was asked and when it answered.
    """

    host: str
    pid: int
    nbdist: str
    folder: str
    cwd: str
    address: str | None
    listening: int | None = None
    ports: tuple[int, ...] = ()
    checks: Checkup | None = None
    asked_s: float = 0.0
    received_s: float = 0.0


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


def other_python() -> str:
    """Return the words for the alternative to installing nbdist."""
    return f"or name another interpreter with {option('remote_python')}"


def lacks_nbdist(lines: Iterable[str]) -> bool:
    """Return whether a Python that was to run nbdist reports that it has none."""
    return any("No module named" in line and "nbdist" in line for line in lines)


def install_nbdist(who: str, python: str, *, host: str | None, otherwise: str) -> str:
    """Return a sentence that says who lacks nbdist, and the command that installs it.

    Args:
      who: Who lacks nbdist, such as `Engine 3 (host h2)`.
      python: The interpreter.
      host: The interpreter's host; None: each host.
      otherwise: An alternative, or what must be done afterwards.
    """
    where = "On the hosts" if host is None else f"On {host}"
    return f"{who} has no nbdist. {where} run: {python} -m pip install nbdist=={__version__}; {otherwise}."
