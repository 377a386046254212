"""One host of a test bed while it runs: its processes, its cable, what slows it down."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from tests.testbed.number import links, prefix, remove_link

HERE = Path(__file__).parent
START_SECONDS = 20.0
END_SECONDS = 10.0


class HostError(Exception):
    """A host of the test bed could not be had, or has ended."""


def run(*command: str, text: str = "") -> None:
    """Runs a command of the system; what it said is in the error when it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"{' '.join(command)} failed on this machine: {done.stderr.strip()}")


def mac(number: int, i: int) -> str:
    """The hardware address of host i of a bed; of this machine for 0."""
    return f"02:4e:42:00:{number:02x}:{i:02x}"


def stop(program: subprocess.Popen[bytes]) -> None:
    """Ends a program that ends at the end of input."""
    if program.stdin is not None:
        program.stdin.close()
    program.wait(END_SECONDS)


class Booted:
    """Host i of bed `number`, started; its files are there already.

    Args:
      number: Of the bed.
      i: Of the host.
      own: The host's folder.
      lifeline: A descriptor that all processes of the bed hold.

    Raises:
      HostError: It did not start, with what it said last.
    """

    def __init__(self, number: int, i: int, *, own: Path, lifeline: int) -> None:
        self.name = f"h{i}"
        self.cable = f"{prefix(number)}h{i}"
        """This machine's end of the host's network cable."""
        self._tap = f"{prefix(number)}t{i}"
        self._bridge = f"{prefix(number)}br"
        self._own, self._lifeline = own, lifeline
        self._relay: subprocess.Popen[bytes] | None = None
        self._throttle: subprocess.Popen[bytes] | None = None
        self._holder = self._program("host.py", str(own / "host.json"))
        said = self._answer(self._holder)
        self.first = int(said)
        """Process 1 of the host, as this machine numbers it."""
        # Numbers of processes are used again, this is not.
        self._handle = os.pidfd_open(self.first)
        end = f"peer name eth0 address {mac(number, i)} netns {self.first}"
        joined = f"link set {self.cable} master {self._bridge} up"
        run("ip", "-batch", "-", text=f"link add {self.cable} type veth {end}\n{joined}\n")
        assert self._holder.stdin is not None
        self._holder.stdin.write(b"\n")
        self._holder.stdin.flush()

    def wait_ready(self, address: str) -> None:
        """Waits for the greeting of the host's sshd."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and not self.has_ended():
            try:
                with socket.create_connection((address, 22), timeout=1.0) as connection:
                    if connection.recv(4) == b"SSH-":
                        return
            except OSError:
                time.sleep(0.01)
        raise HostError(f"Host {self.name} does not answer on port 22: {self._log()}")

    def has_ended(self, timeout_s: float = 0.0) -> bool:
        """Whether no process of the host is left."""
        return self._handle == -1 or bool(select.select([self._handle], [], [], timeout_s)[0])

    def begin_end(self) -> None:
        """Asks the host to end; `end` waits for it."""
        self._stop_relay()
        self._stop_throttle()
        if self._holder.stdin is not None:
            self._holder.stdin.close()

    def end(self) -> None:
        """Ends the host.

        Raises:
          HostError: It does not end.
        """
        self.begin_end()
        if not self.has_ended(END_SECONDS):
            signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            if not self.has_ended(END_SECONDS):
                raise HostError(
                    f"Host {self.name} does not end: process {self.first} of this machine."
                )
        self._holder.wait(END_SECONDS)
        if self._handle != -1:
            os.close(self._handle)
            self._handle = -1

    def crash(self) -> None:
        """Ends the host with no word from any process of it."""
        run("ip", "link", "set", self.cable, "down")
        self._holder.kill()
        self.end()
        # Its network would last as long as a connection has something left to say.
        remove_link(self.cable)
        if self.cable in links():
            raise HostError(f"The network cable of host {self.name} is still there: {self.cable}.")

    def relay(self, *options: str) -> None:
        """Puts a relay with these options between the cable and the bridge; none of them for no relay."""
        self._stop_relay()
        if not options:
            run("ip", "link", "set", self.cable, "master", self._bridge)
            return
        run("ip", "link", "set", self.cable, "nomaster")
        space = f"/proc/{self.first}/ns/net"
        self._relay = self._program(
            "relay.py", self.cable, self._tap, self._bridge, space, *options
        )
        self._answer(self._relay)

    def throttle(self, factor: float) -> None:
        """Leaves the host's processes one `factor`th of the time; all of it for 1."""
        self._stop_throttle()
        if factor != 1:
            self._throttle = self._program("throttle.py", str(self.first), str(factor))
            self._answer(self._throttle)

    def _program(self, name: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Starts a program of this folder that ends at the end of input, and so with this process."""
        with (self._own / "log").open("ab") as log:
            return subprocess.Popen(
                (sys.executable, "-I", "-S", str(HERE / name), *arguments),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                pass_fds=(self._lifeline,),
            )

    def _answer(self, program: subprocess.Popen[bytes]) -> str:
        """The one line a program says when it is ready."""
        assert program.stdout is not None
        with program.stdout as output:
            said = output.readline().decode().strip()
        if not said:
            raise HostError(f"Host {self.name} or its network did not start: {self._log()}")
        return said

    def _stop_relay(self) -> None:
        if self._relay is not None:
            stop(self._relay)
            self._relay = None

    def _stop_throttle(self) -> None:
        if self._throttle is not None:
            stop(self._throttle)
            self._throttle = None

    def _log(self) -> str:
        return (self._own / "log").read_text(errors="replace").strip()[-2000:]
