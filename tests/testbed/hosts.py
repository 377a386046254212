"""A test bed: hosts made of namespaces, joined by a bridge, each with its own sshd.

Each host has its own network, name, processes, /tmp, /run and /dev/shm, and a /root that reads this
machine's and keeps what is written there to itself. All else it shares with this machine, so Python
and the project are where they are here. This machine is in the network as well; nothing beyond is.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Literal

from tests.testbed import ssh
from tests.testbed.number import claim, folder, prefix, subnet
from tests.testbed.processes import Process, processes_beside

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
ENVIRONMENT = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
}
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
START_SECONDS = 20.0
END_SECONDS = 10.0
METADATA_ADDRESS = "169.254.169.254"
DEAD = 250
"""The last byte of an address nobody has."""


class HostError(Exception):
    """A host of the test bed could not be had, or has ended."""


@dataclass(frozen=True)
class HostOptions:
    """How one host differs from the others.

    Attributes:
      own_name: What the host's own name means there: its address; `127.0.1.1`, as Debian's
        installer writes it; or nothing at all.
      tmp_bytes: Size of its /tmp.
      metadata: Attributes that a metadata server tells there, as on Google's machines.
      shown: Folders in this machine's /tmp to be seen on the host as well.
    """

    own_name: Literal["address", "loopback", "unknown"] = "address"
    tmp_bytes: int = 2 << 30
    metadata: Mapping[str, str] | None = None
    shown: tuple[Path, ...] = ()


@dataclass
class Running:
    """A host that was started: the handle that ends it, and process 1 as this machine sees it."""

    holder: subprocess.Popen[bytes]
    first: int
    handle: int
    """A pidfd of process 1, since numbers of processes are used again; -1 when it was closed."""
    relay: subprocess.Popen[bytes] | None = field(default=None)

    def has_ended(self, timeout_s: float = 0.0) -> bool:
        return self.handle == -1 or bool(select.select([self.handle], [], [], timeout_s)[0])

    def close(self) -> None:
        """Lets go of a host that has ended."""
        if self.handle != -1:
            os.close(self.handle)
            self.handle = -1
        if self.holder.stdin is not None:
            self.holder.stdin.close()


def run(*command: str, text: str = "") -> None:
    """Runs a command of the system; what it said is in the error when it fails."""
    done = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise HostError(f"{' '.join(command)} failed on this machine: {done.stderr.strip()}")


class TestBed:
    """Hosts h1 to h`count`, from entering until leaving.

    Args:
      count: How many hosts.
      options: How host i differs, by i; hosts are counted from 1.
      shown: Folders in this machine's /tmp to be seen on every host as well.

    Raises:
      HostError: A host did not start, with what it said last.
    """

    __test__ = False  # Not a test, whatever pytest makes of the name.

    def __init__(
        self,
        count: int,
        *,
        options: Mapping[int, HostOptions] | None = None,
        shown: Sequence[Path] = (),
    ) -> None:
        self.names = tuple(f"h{i}" for i in range(1, count + 1))
        self._options = dict(options or {})
        self._shown = tuple(shown)
        self._hosts: dict[int, Running] = {}

    def __enter__(self) -> TestBed:
        self.number, lock = claim()
        self._janitor = subprocess.Popen(
            (sys.executable, "-m", "tests.testbed.janitor", str(self.number)),
            stdin=subprocess.PIPE,
            cwd=ROOT,
            start_new_session=True,
            pass_fds=(lock,),
        )
        os.close(lock)  # The janitor holds it now, for as long as there is anything to remove.
        try:
            self._up()
        except BaseException:
            self.down()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.down()

    @property
    def folder(self) -> Path:
        """All the bed writes; seen on every host under the same path."""
        return folder(self.number)

    @property
    def ssh_config(self) -> Path:
        """For `ssh -F`."""
        return self.folder / "ssh_config"

    @property
    def head_address(self) -> str:
        """This machine's address in the hosts' network."""
        return f"{subnet(self.number)}.1"

    def address(self, i: int) -> str:
        """Of host i."""
        return f"{subnet(self.number)}.{10 + i}"

    def exec(
        self, i: int, *command: str, timeout_s: float = 60.0
    ) -> subprocess.CompletedProcess[str]:
        """Runs a command on host i, not through ssh, and returns how it ended and what it said."""
        return subprocess.run(
            self.command(i, *command),
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env=ENVIRONMENT,
            check=False,
        )

    def command(self, i: int, *command: str) -> tuple[str, ...]:
        """What to run on this machine for `command` to run on host i, not through ssh.

        Killing it kills `command`, but not what that started.
        """
        enter = ("nsenter", f"--target={self._living(i).first}", "--wd=/")
        spaces = ("--net", "--uts", "--ipc", "--pid", "--mount")
        return (*enter, *spaces, "--", *DIE_WITH_PARENT, *command)

    def cut(self, i: int) -> None:
        """Pulls the network cable of host i: packets vanish, and nobody is told."""
        run("ip", "link", "set", self._cable(i), "down")

    def heal(self, i: int) -> None:
        """Puts the network cable of host i back in."""
        run("ip", "link", "set", self._cable(i), "up")

    def crash(self, i: int) -> None:
        """Takes the power off host i: no process of it says another word."""
        host = self._living(i)
        self.cut(i)
        host.holder.kill()
        self._wait_ended(i, host)
        self._end_relay(host)
        # Its network would last as long as a connection has something left to say.
        run("ip", "link", "delete", self._cable(i))

    def boot(self, i: int) -> None:
        """Starts host i again after a crash; its name, address and host key are as before."""
        if i in self._hosts and not self._hosts[i].has_ended():
            raise HostError(f"Host h{i} is running: crash({i}) first.")
        self._start(i)
        self._wait_ready(i)

    def processes(self, i: int) -> list[Process]:
        """What runs on host i beside the host itself, its sshd and its metadata server."""
        return processes_beside(self._living(i).first)

    def files_left(self, i: int, pattern: str) -> list[Path]:
        """The paths on host i that match, such as `/tmp/nbdist-*`; `**` is any number of folders."""
        root = Path(f"/proc/{self._living(i).first}/root")
        return sorted(Path("/") / path.relative_to(root) for path in root.glob(pattern.lstrip("/")))

    def delay(self, i: int, ms: float) -> None:
        """Holds every packet to and from host i for `ms` milliseconds; 0 takes that off again."""
        self._relay(i, *(("--delay-ms", str(ms)) if ms else ()))

    def only_ssh(self, i: int) -> None:
        """Drops all to and from host i but ssh, as a firewall does; `delay(i, 0)` takes that off again."""
        self._relay(i, "--only-port", "22")

    def down(self) -> None:
        """Ends every host and removes all the bed made. Does nothing when that was done."""
        for host in self._hosts.values():
            self._end_relay(host)
            if host.holder.stdin is not None:
                host.holder.stdin.close()
        for i, host in self._hosts.items():
            self._wait_ended(i, host)
        self._hosts.clear()
        if self._janitor.stdin is not None and not self._janitor.stdin.closed:
            self._janitor.stdin.close()
            if self._janitor.wait(END_SECONDS) != 0:
                raise HostError(f"What test bed {self.number} made is not all removed; see above.")

    @property
    def _lifeline(self) -> int:
        """Held by all that belongs to the bed: the janitor removes the rest when nobody holds it."""
        assert self._janitor.stdin is not None
        return self._janitor.stdin.fileno()

    def _up(self) -> None:
        for name in self.names:
            (self.folder / name).mkdir()
        indices = range(1, len(self.names) + 1)
        for i in indices:
            self._write_files(i)
        bridge = prefix(self.number) + "br"
        dead = f"{subnet(self.number)}.{DEAD}"
        ssh.write(self.folder, {f"h{i}": self.address(i) for i in indices}, dead=dead)
        # With the neighbours known, an address that nobody answers for is silent, as behind a router.
        neighbours = [
            f"neigh add {self.address(i)} lladdr {self._mac(i)} dev {bridge}" for i in indices
        ]
        lines = [
            f"link add {bridge} address {self._mac(0)} type bridge",
            f"addr add {self.head_address}/24 dev {bridge}",
            f"link set {bridge} up",
            f"neigh add {dead} lladdr {self._mac(DEAD)} dev {bridge}",
            *neighbours,
        ]
        run("ip", "-batch", "-", text="\n".join(lines))
        for i in indices:
            self._start(i)
        for i in indices:
            self._wait_ready(i)

    def _write_files(self, i: int) -> None:
        own = self.folder / f"h{i}"
        option = self._options.get(i, HostOptions())
        names = [f"{self.address(j)} h{j}" for j in range(1, len(self.names) + 1) if j != i]
        if option.own_name != "unknown":
            names.append(f"{self.address(i) if option.own_name == 'address' else '127.0.1.1'} h{i}")
        services = [["/usr/sbin/sshd", "-D", "-e", "-f", f"{own}/sshd_config"]]
        network = [
            "link set lo up",
            f"addr add {self.address(i)}/24 dev eth0",
            "link set eth0 up",
            f"route add default via {self.head_address}",
            f"neigh add {self.head_address} lladdr {self._mac(0)} dev eth0",
        ]
        if option.metadata is not None:
            names.append(f"{METADATA_ADDRESS} metadata.google.internal metadata")
            network.append(f"addr add {METADATA_ADDRESS}/32 dev lo")
            server = (sys.executable, "-I", str(HERE / "metadata_server.py"))
            services.append([*server, METADATA_ADDRESS, json.dumps(dict(option.metadata))])
        (own / "hosts").write_text(
            "\n".join(["127.0.0.1 localhost", f"{self.head_address} head", *names, ""])
        )
        (own / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")
        (own / "scratch").mkdir()
        config = {
            "name": f"h{i}",
            "folder": str(own),
            "tmp_size": str(option.tmp_bytes),
            "shown": self._shown_in_tmp(option),
            "network": network,
            "services": services,
        }
        (own / "host.json").write_text(json.dumps(config))

    def _shown_in_tmp(self, option: HostOptions) -> list[str]:
        """The folders below /tmp that a host needs: the bed's, and Python and the project if there."""
        needed = {ROOT, Path(sys.prefix), Path(sys.base_prefix), *self._shown, *option.shown}
        below = sorted({path for path in needed if path.is_relative_to("/tmp")} | {self.folder})
        return [str(p) for p in below if not any(p != q and p.is_relative_to(q) for q in below)]

    def _start(self, i: int) -> None:
        own = self.folder / f"h{i}"
        with (own / "log").open("ab") as log:
            holder = subprocess.Popen(
                (sys.executable, "-I", "-S", str(HERE / "host.py"), str(own / "host.json")),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                pass_fds=(self._lifeline,),
            )
        assert holder.stdin is not None and holder.stdout is not None
        first = holder.stdout.readline().decode()
        holder.stdout.close()
        if not first.strip():
            holder.wait(END_SECONDS)
            raise HostError(f"Host h{i} did not start: {self._log(i)}")
        host = Running(holder, int(first), os.pidfd_open(int(first)))
        self._hosts[i] = host
        cable, bridge = self._cable(i), prefix(self.number) + "br"
        end = f"peer name eth0 address {self._mac(i)} netns {host.first}"
        lines = [f"link add {cable} type veth {end}", f"link set {cable} master {bridge} up"]
        run("ip", "-batch", "-", text="\n".join(lines))
        holder.stdin.write(b"\n")
        holder.stdin.flush()

    def _wait_ready(self, i: int) -> None:
        """Waits for the greeting of the host's sshd."""
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until and not self._hosts[i].has_ended():
            try:
                with socket.create_connection((self.address(i), 22), timeout=1.0) as connection:
                    if connection.recv(4) == b"SSH-":
                        return
            except OSError:
                time.sleep(0.01)
        raise HostError(f"Host h{i} does not answer on port 22: {self._log(i)}")

    def _wait_ended(self, i: int, host: Running) -> None:
        if not host.has_ended(END_SECONDS):
            signal.pidfd_send_signal(host.handle, signal.SIGKILL)
            if not host.has_ended(END_SECONDS):
                raise HostError(f"Host h{i} does not end: process {host.first} of this machine.")
        host.holder.wait(END_SECONDS)
        host.close()

    def _relay(self, i: int, *options: str) -> None:
        host = self._living(i)
        self._end_relay(host)
        cable, bridge = self._cable(i), prefix(self.number) + "br"
        if not options:
            run("ip", "link", "set", cable, "master", bridge)
            return
        run("ip", "link", "set", cable, "nomaster")
        tap = f"{prefix(self.number)}t{i}"
        relay = (sys.executable, "-I", "-S", str(HERE / "relay.py"))
        with (self.folder / f"h{i}" / "log").open("ab") as log:
            host.relay = subprocess.Popen(
                (*relay, cable, tap, bridge, f"/proc/{host.first}/ns/net", *options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                start_new_session=True,
                pass_fds=(self._lifeline,),
            )
        assert host.relay.stdout is not None
        if not host.relay.stdout.readline():
            raise HostError(f"The relay of host h{i} did not start: {self._log(i)}")

    def _end_relay(self, host: Running) -> None:
        if host.relay is not None:
            assert host.relay.stdin is not None and host.relay.stdout is not None
            host.relay.stdin.close()
            host.relay.stdout.close()
            host.relay.wait(END_SECONDS)
            host.relay = None

    def _living(self, i: int) -> Running:
        host = self._hosts.get(i)
        if host is None or host.has_ended():
            raise HostError(
                f"Host h{i} is not running; the hosts are {', '.join(self.names) or 'none'}."
            )
        return host

    def _cable(self, i: int) -> str:
        """This machine's end of the host's network cable."""
        return f"{prefix(self.number)}h{i}"

    def _mac(self, i: int) -> str:
        return f"02:4e:42:00:{self.number:02x}:{i:02x}"

    def _log(self, i: int) -> str:
        return (self.folder / f"h{i}" / "log").read_text(errors="replace").strip()[-2000:]
