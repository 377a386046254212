"""Examination of all hosts at once: facts of each first, then connections between them.

Each host connects to all others and to this machine, and this machine to each.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from msgspec import structs

from nbdist.contract.checkup import Checkup, Connected, Connection, OldPython, Reading, read_checkup
from nbdist.contract.wire import Plain, decode
from nbdist.engine.frameworks import imported
from nbdist.errors import WireError
from nbdist.launch.doctor.finding import THIS_MACHINE, Clock, Examined, Finding, refused
from nbdist.launch.launchers.ssh import shell, ssh_command
from nbdist.launch.model.hosts import AskedHost, SshOptions
from nbdist.machine import checkup
from nbdist.machine.ports import own_address
from nbdist.spelling import option

T = TypeVar("T")

ANSWER_SECONDS = 15.0
"""Seconds a host may take to report its facts after it has connected."""

# One line, since some shells end a quotation at a new line. Python 2 must be able to parse it.
BOOT = (
    "import sys,json;"
    "v=sys.version_info;"
    "old=dict(checkup=dict(python=list(v[:3]),executable=sys.executable));"
    "code=sys.stdin.buffer.read(int(sys.argv[1])) if v>=(3,8) else "
    "'sys.stdout.write(json.dumps(old)+chr(10))';"
    "eval(compile(code,'checkup','exec'),dict(__name__='__main__',sys=sys,json=json,old=old))"
)


class Visit:
    """One connection to one host, for the time of its examination.

    A Python on the host runs the examiner, whose source it reads from its input. Methods may be called from any
    thread.
    """

    def __init__(self, host: AskedHost, options: SshOptions, asked: Mapping[str, Any]) -> None:
        self.host = host
        self.facts: Checkup | OldPython | None = None
        self.trouble: Finding | None = None
        self.clock: Clock | None = None
        self._options = options
        self._asked = asked
        self._process: subprocess.Popen[bytes] | None = None

    def look(self) -> None:
        """Ask for facts; afterwards either `facts` or `trouble` is set."""
        source = Path(checkup.__file__).read_bytes()
        remote = [self._options.python, "-c", BOOT, str(len(source))]
        command = ssh_command(self.host, self._options, remote)
        with _scratch() as words:
            try:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words
                )
            except OSError as error:
                self.trouble = self._no_ssh(error)
                return
            with self._limit(ANSWER_SECONDS) as late:
                self._write(source + json.dumps(self._asked).encode() + b"\n")
                try:
                    self.facts = self._read(read_checkup)
                except WireError as error:
                    self.trouble = self._unreadable(error)
                    return
            if self.facts is None:
                # After a host has closed its end, its reason may arrive a moment later.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(1)
                words.seek(0)
                text = words.read().decode("utf-8", "replace")
                status = None if late.is_set() else self._process.poll()
                self.trouble = refused(self.host, self._options, status, text)

    def connect(self, targets: Sequence[Sequence[Any]]) -> tuple[Connection, ...]:
        """Let the host connect to `[address, port]` pairs, and compare its clock; return empty if it is gone.

        Raises:
          WireError: The host's answer has another form.
        """
        if not isinstance(self.facts, Checkup):
            return ()
        with self._limit(ANSWER_SECONDS):
            sent = time.time()
            self._write(json.dumps({"connect": targets}).encode() + b"\n")
            reading = self._read(partial(decode, Reading))
            received = time.time()
            answer = self._read(partial(decode, Connected))
        if reading is not None:
            self.clock = clock(reading.time, sent, received)
        return answer.connected if answer is not None else ()

    def end(self) -> None:
        """Close the connection, which also ends the examiner on the host."""
        if self._process is None:
            return
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(0.5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def kill(self) -> None:
        """Kill the connection, so that no thread waits for this host any more."""
        if self._process is not None:
            self._process.kill()

    @contextlib.contextmanager
    def _limit(self, seconds: float) -> Any:
        late = threading.Event()

        def end() -> None:
            late.set()
            self.kill()

        timer = threading.Timer(seconds, end)
        timer.start()
        try:
            yield late
        finally:
            timer.cancel()

    def _write(self, data: bytes) -> None:
        assert self._process is not None
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _read(self, read: Callable[[Plain], T]) -> T | None:
        """Return the next answer, None if there is none; skip lines that a shell prints at its start.

        Raises:
          WireError: The answer has another shape; the text names the host.
        """
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if line.startswith(b'{"checkup"'):
                try:
                    return read(json.loads(line)["checkup"])
                except (ValueError, WireError) as error:
                    raise WireError(f"What host {self.host.name} has reported: {error}") from error
        return None

    def _unreadable(self, error: WireError) -> Finding:
        return Finding(
            severity="error",
            host=self.host.name,
            what=f"its facts cannot be read: {error}",
            where=f"{self._options.python} on {self.host.name}",
            do=f"name another Python with {option('remote_python')}",
        )

    def _no_ssh(self, error: OSError) -> Finding:
        return Finding(
            severity="error",
            host=self.host.name,
            what=f"ssh cannot be run on this machine: {error.strerror}",
            where="ssh, on this machine",
            do="sudo apt install openssh-client, or what this system has for it",
        )


def _scratch() -> BinaryIO:
    """Return a file without a name; in memory if the system can, since the disk may be full."""
    if sys.platform == "linux":
        return os.fdopen(os.memfd_create("words"), "w+b")
    return tempfile.TemporaryFile()


def clock(reading: float, sent: float, received: float) -> Clock:
    """Return how far a host's clock is ahead of this machine's.

    Args:
      reading: Time of the host's clock, in seconds.
      sent: Time of this machine's clock before the reading.
      received: Time of this machine's clock after the reading.
    """
    return Clock(ahead_s=reading - (sent + received) / 2, within_s=(received - sent) / 2)


OUTSIDE = "192.0.2.1"
"""An address for documentation (RFC 5737). Nothing is sent there; it only shows the way out of this machine."""


@dataclass(frozen=True, slots=True)
class Reachability:
    """How attempts to connect ended: by host and its target, and by host for attempts from this machine."""

    reached: dict[str, dict[str, Connection]] = field(default_factory=dict)
    reachable: dict[str, Connection] = field(default_factory=dict)


def try_connections(pool: Executor, visits: Sequence[Visit]) -> Reachability:
    """Let all hosts try to connect to each other, all at once.

    Takes some milliseconds; `checkup.CONNECT_SECONDS` if a connection is blocked.
    """
    with contextlib.ExitStack() as stack:
        listening = _listening(visits, stack)
        ports: dict[str, Sequence[Any]] = {
            visit.host.name: visit.facts.listening
            for visit in visits
            if isinstance(visit.facts, Checkup) and visit.facts.listening is not None
        }
        targets = {visit.host.name: _targets(visit, listening, ports) for visit in visits}
        back = pool.submit(checkup.connect, list(ports.values()))
        answers = pool.map(lambda v: v.connect(list(targets[v.host.name].values())), visits)
        reached: dict[str, dict[str, Connection]] = {
            visit.host.name: {
                name: structs.replace(given, address=str(target[0]))
                for (name, target), given in zip(
                    targets[visit.host.name].items(), answer, strict=False
                )
            }
            for visit, answer in zip(visits, answers, strict=True)
        }
        called = (decode(Connection, one) for one in back.result())
        return Reachability(reached, dict(zip(ports, called, strict=True)))


def _targets(
    visit: Visit, listening: dict[str, int], ports: dict[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    found = {name: port for name, port in ports.items() if name != visit.host.name}
    address = _address_for(visit)
    return {THIS_MACHINE: (address, listening[address]), **found} if address in listening else found


def _listening(visits: Sequence[Visit], stack: contextlib.ExitStack) -> dict[str, int]:
    """Open listeners at all addresses of this machine that hosts are to call; return their ports by address."""
    found: dict[str, int] = {}
    for address in {address for visit in visits if (address := _address_for(visit))}:
        with contextlib.suppress(OSError):
            listener = stack.enter_context(checkup.listen(address))
            found[address] = listener.getsockname()[1]
    return found


def _address_for(visit: Visit) -> str | None:
    """Return this machine's address as a host sees it; if that is another machine's, the outgoing address.

    ssh may go through another host, or a device on the way may change addresses.
    """
    if not isinstance(visit.facts, Checkup):
        return None
    seen = visit.facts.seen_as
    return seen.client if seen and checkup.is_own(seen.client) else own_address(OUTSIDE)


def examine_all(
    hosts: Sequence[AskedHost], options: SshOptions, *, folder: str | None = None
) -> tuple[list[Examined], Checkup]:
    """Examine all hosts at once.

    Takes as long as the slowest host; `checkup.CONNECT_SECONDS` more if a connection is blocked.

    Args:
      hosts: The hosts to examine; a local one stands for this machine.
      options: How hosts are reached.
      folder: A folder that should exist on each, or None.

    Returns:
      One entry per host, in the same order, and the facts of this machine.
    """
    asked = {"folder": folder}
    visits = {host.name: Visit(host, options, asked) for host in hosts if not host.local}
    with _ending(visits.values()), ThreadPoolExecutor(max_workers=len(visits) + 1) as pool:
        # An interrupt may come during the wait; the visits are then killed, so that the pool ends at once.
        try:
            here = pool.submit(kernel_facts, asked)
            # With a copy of the context, which says whether error texts use the syntax of Python or of magics.
            looks = [pool.submit(copy_context().run, visit.look) for visit in visits.values()]
            for look in looks:
                look.result()
            kernel = here.result()
            reachability = try_connections(pool, list(visits.values()))
        except BaseException:
            for visit in visits.values():
                visit.kill()
            raise
    return [
        _examined(host, options, kernel, visits.get(host.name), reachability) for host in hosts
    ], kernel


def kernel_facts(asked: Mapping[str, Any]) -> Checkup:
    """Return facts of this process and its machine, with the `backends` that are already up in it."""
    up = [
        {"framework": one.name, "platform": platform}
        for one in imported()
        if (platform := one.holds()) is not None
    ]
    return decode(Checkup, {**checkup.checkup(dict(asked)), "backends": up})


@contextlib.contextmanager
def _ending(visits: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for visit in visits:
            visit.end()


def _examined(
    host: AskedHost,
    options: SshOptions,
    kernel: Checkup,
    visit: Visit | None,
    reachability: Reachability,
) -> Examined:
    processes = host.processes or 1
    if visit is None:
        return Examined(host=host.name, facts=kernel, processes=processes)
    return Examined(
        host=host.name,
        shell=shell(host, options),
        facts=visit.facts,
        trouble=visit.trouble,
        clock=visit.clock,
        reached=reachability.reached.get(host.name, {}),
        reachable=reachability.reachable.get(host.name),
        processes=processes,
    )
