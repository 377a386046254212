"""Examination of one host: a Python there runs the examiner, whose source it reads from its input."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from nbdist.contract.checkup import (
    Checkup,
    Connected,
    Connection,
    OldPython,
    Reading,
    read_checkup,
)
from nbdist.contract.wire import Plain, decode
from nbdist.errors import WireError
from nbdist.launch.doctor.finding import Clock, Finding
from nbdist.launch.doctor.refused import refused
from nbdist.launch.model.host_list import AskedHost
from nbdist.launch.model.ssh import SshOptions, ssh_command
from nbdist.machine import checkup
from nbdist.spelling import option

T = TypeVar("T")

ANSWER_SECONDS = 15.0
"""Seconds a host may take to report its facts after it has connected."""

# One line, since a new line ends a quotation in some shells; and Python 2 must be able to read it.
BOOT = (
    "import sys,json;"
    "v=sys.version_info;"
    "old=dict(checkup=dict(python=list(v[:3]),executable=sys.executable));"
    "code=sys.stdin.buffer.read(int(sys.argv[1])) if v>=(3,8) else "
    "'sys.stdout.write(json.dumps(old)+chr(10))';"
    "eval(compile(code,'checkup','exec'),dict(__name__='__main__',sys=sys,json=json,old=old))"
)


class Visit:
    """One connection to one host, for the time of its examination. Methods may be called from any thread."""

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
                # A host that has closed its end may take a moment to say why.
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._process.wait(1)
                words.seek(0)
                text = words.read().decode("utf-8", "replace")
                status = None if late.is_set() else self._process.poll()
                self.trouble = refused(self.host, self._options, status, text)

    def connect(self, targets: Sequence[Sequence[Any]]) -> tuple[Connection, ...]:
        """Let the host connect to `[address, port]` pairs, and compare its clock; return empty if it is gone.

        Raises:
          WireError: The host answers something else.
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
    """Return how far a clock is ahead that read `reading` at some moment between two readings of one's own.

    All in seconds.
    """
    return Clock(ahead_s=reading - (sent + received) / 2, within_s=(received - sent) / 2)
