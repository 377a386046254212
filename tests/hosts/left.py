"""What a session has left behind, on the hosts of a test bed and on this machine; nothing is what is wanted."""

from __future__ import annotations

import ipaddress
import os
import time
from collections.abc import Collection, Iterator
from pathlib import Path

import psutil

from tests.testbed.hosts import HostError, TestBed

POLL_SECONDS = 0.05
END_SECONDS = 60.0
SAVED = "nbdist-rescued-"
"""How the folders begin in which a process that does not come back saves its arrays; they are meant to stay."""

OWN = ("tests.testbed", "tests/testbed")
"""In the command lines of what belongs to the bed."""


class Left:
    """Looks for what is left of sessions that were started in a folder for temporary files of their own.

    Args:
      bed: The hosts, on which no session has been yet; those that have crashed are not looked at.
      folder: What TMPDIR is for whoever starts the sessions, which tells their processes here from others.
      starter: The process that starts them, which stays; None: this one.
    """

    def __init__(self, bed: TestBed, folder: Path, *, starter: int | None = None) -> None:
        self.bed = bed
        self.folder = folder
        self._starter = starter
        self._hosts = range(1, len(bed.names) + 1)
        self._always = {i: set(files(bed, i)) for i in self._hosts}

    def now(self) -> list[str]:
        """Everything that is left, one sentence each."""
        found = [*self._here()]
        for i in self._hosts:
            try:
                found += self._there(i)
            except HostError:
                continue  # Nothing outlives a crash.
        return found

    def nothing(self, *, within_s: float = END_SECONDS, besides: Collection[str] = ()) -> None:
        """Waits until nothing is left, `besides` what `now` has told before.

        Raises:
          AssertionError: Something still is, after `within_s` seconds.
        """
        until = time.monotonic() + within_s
        while (found := set(self.now()).difference(besides)) and time.monotonic() < until:
            time.sleep(POLL_SECONDS)
        assert not found, "\n".join(["left:", *sorted(found)])

    def _here(self) -> Iterator[str]:
        for pid, command in processes_in(self.folder).items():
            if pid != self._starter:
                yield f"on this machine: {pid} {command}"
        for path in self.folder.iterdir():
            if not path.name.startswith(SAVED):
                yield f"on this machine: {path}"

    def _there(self, i: int) -> Iterator[str]:
        for process in self.bed.processes(i):
            yield f"on h{i}: {process}"
        for path in files(self.bed, i) - self._always[i]:
            yield f"on h{i}: {path}"
        for connection in connections(self.bed, i):
            yield f"on h{i}: a connection of {connection} to its sshd"


def processes_in(folder: Path) -> dict[int, str]:
    """The processes of this machine whose TMPDIR is `folder`, without this one and those of a bed."""
    wanted, space = str(folder), Path("/proc/self/ns/pid").readlink()
    found = {}
    for process in psutil.process_iter():
        try:
            command = " ".join(process.cmdline())
            if (
                process.pid != os.getpid()
                and process.environ().get("TMPDIR") == wanted
                and Path(f"/proc/{process.pid}/ns/pid").readlink() == space
                and not any(word in command for word in OWN)
            ):
                found[process.pid] = command
        except (psutil.Error, OSError):
            continue  # It has ended.
    return found


def files(bed: TestBed, i: int) -> set[Path]:
    """What there is on a host where a session could have written."""
    kept = bed.folder / f"h{i}" / "scratch" / "upper"
    # At home each path by itself: what a library keeps in `.cache` hides nothing else there.
    patterns = ("/tmp/*", "/var/tmp/*", "/dev/shm/*", "/run/*", f"{kept}/**/*")
    found = {path for pattern in patterns for path in bed.files_left(i, pattern)}
    written = {path for path in found if not any(part.startswith(SAVED) for part in path.parts)}
    return {path for path in written if not _of_libraries(path, kept)}


def _of_libraries(path: Path, home: Path) -> bool:
    """Whether Keras or matplotlib writes it at home when somebody imports them there for the first time."""
    return path.is_relative_to(home) and any(
        place.is_relative_to(path) or path.is_relative_to(place)
        for place in (home / ".keras", home / ".config/matplotlib", home / ".cache/matplotlib")
    )


def connections(bed: TestBed, i: int, *, port: int = 22) -> list[str]:
    """The other ends of connections to a host's sshd, as `ADDRESS:PORT`."""
    return [other for own, other in sockets(bed, i, ESTABLISHED) if own.endswith(f":{port}")]


LISTENING, ESTABLISHED = "0A", "01"
"""States of a TCP socket in /proc/net/tcp (include/net/tcp_states.h in Linux)."""


def sockets(bed: TestBed, i: int, state: str) -> list[tuple[str, str]]:
    """Own and other address of each TCP socket on host i in a state."""
    said = bed.exec(i, "cat", "/proc/net/tcp", "/proc/net/tcp6").stdout
    return [(own, other) for own, other, _ in read_sockets(said, state)]


def read_sockets(text: str, state: str) -> list[tuple[str, str, str]]:
    """Own address, other address and inode of each socket in a state, from /proc/net/tcp and tcp6."""
    rows = [line.split() for line in text.splitlines()]
    return [(plain(row[1]), plain(row[2]), row[9]) for row in rows if row[3] == state]


def plain(text: str) -> str:
    """An address of /proc/net/tcp as people write it, such as `10.77.1.11:22`."""
    address, _, port = text.partition(":")
    # Words of four bytes, each in this machine's order.
    words = [bytes.fromhex(address[i : i + 8])[::-1] for i in range(0, len(address), 8)]
    found = ipaddress.ip_address(b"".join(words))
    return f"{getattr(found, 'ipv4_mapped', None) or found}:{int(port, 16)}"
