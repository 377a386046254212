"""A test bed: hosts made of namespaces, joined by a bridge, each with its own sshd.

Each host has its own network, name, processes, /tmp, /run and /dev/shm, and a /root that reads this
machine's and keeps what is written there to itself. All else it shares with this machine, so Python
and the project are where they are here. This machine is in the network as well; nothing beyond is.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType

from tests.testbed import configuration, ssh
from tests.testbed.booted import END_SECONDS, Booted, HostError, mac, run
from tests.testbed.configuration import ROOT, HostOptions
from tests.testbed.host import PATH
from tests.testbed.number import claim, folder, prefix, subnet
from tests.testbed.processes import Process, processes_beside

__all__ = ["DIE_WITH_PARENT", "ROOT", "HostError", "HostOptions", "TestBed"]

ENVIRONMENT = {"PATH": PATH, "HOME": "/root"}
DIE_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
DEAD = 250
"""The last byte of an address nobody has."""


class TestBed:
    """Hosts h1 to h`count`, from entering until leaving.

    Args:
      count: How many hosts.
      options: How host i differs, by i; hosts are counted from 1.
      shown: Folders in this machine's /tmp to be seen on every host as well.

    Attributes:
      number: Of the bed, among those of this machine.
      folder: Holds all the bed writes; seen on every host under the same path.
      names: Of the hosts.

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
        self._hosts: dict[int, Booted] = {}

    def __enter__(self) -> TestBed:
        self.number, lock = claim()
        self.folder = folder(self.number)
        self._janitor = subprocess.Popen(
            (sys.executable, "-m", "tests.testbed.janitor", str(self.number)),
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
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
    def ssh_config(self) -> Path:
        """For `ssh -F`. Beside the hosts it has names that fail, see `tests.testbed.ssh`."""
        return self.folder / "ssh_config"

    @property
    def head_address(self) -> str:
        """This machine's address in the hosts' network."""
        return configuration.head_address(self.number)

    def address(self, i: int) -> str:
        """Of host i."""
        return configuration.address(self.number, i)

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
        run("ip", "link", "set", self._living(i).cable, "down")

    def heal(self, i: int) -> None:
        """Puts the network cable of host i back in."""
        run("ip", "link", "set", self._living(i).cable, "up")

    def delay(self, i: int, ms: float) -> None:
        """Holds every packet to and from host i for `ms` milliseconds; 0 takes that off again."""
        self._living(i).relay(*(("--delay-ms", str(ms)) if ms else ()))

    def only_ssh(self, i: int) -> None:
        """Drops all to and from host i but ssh, as a firewall does; `delay(i, 0)` takes that off again."""
        self._living(i).relay("--only-port", "22")

    def only_ssh_with_this_machine(self, i: int) -> None:
        """Drops all between host i and this machine but ssh; `delay(i, 0)` takes that off again."""
        self._living(i).relay("--only-port", "22", "--of", self.head_address)

    def slow(self, i: int, factor: float) -> None:
        """Makes what runs on host i through ssh `factor` times as slow; 1 takes that off again."""
        self._living(i).throttle(factor)

    def crash(self, i: int) -> None:
        """Takes the power off host i: no process of it says another word."""
        self._living(i).crash()

    def boot(self, i: int) -> None:
        """Starts host i again after a crash; its name, address and host key are as before."""
        if i in self._hosts and not self._hosts[i].has_ended():
            raise HostError(f"Host h{i} is running: crash({i}) first.")
        self._start(i)
        self._hosts[i].wait_ready(self.address(i))

    def processes(self, i: int) -> list[Process]:
        """What runs on host i beside the host itself, its sshd, its metadata server and slurmd."""
        return processes_beside(self._living(i).first)

    def files_left(self, i: int, pattern: str) -> list[Path]:
        """The paths on host i that match, such as `/tmp/nbdist-*`; `**` is any number of folders."""
        root = Path(f"/proc/{self._living(i).first}/root")
        return sorted(Path("/") / path.relative_to(root) for path in root.glob(pattern.lstrip("/")))

    def written_at_home(self, i: int) -> list[Path]:
        """The files in /root that were written on host i; `.bashrc` is from the start."""
        upper = self.folder / f"h{i}" / "scratch" / "upper"
        root = Path(f"/proc/{self._living(i).first}/root")
        found = (path for path in (root / upper.relative_to("/")).rglob("*") if not path.is_dir())
        return sorted(
            "/root" / path.relative_to(root).relative_to(upper.relative_to("/")) for path in found
        )

    def down(self) -> None:
        """Ends every host and removes all the bed made. Does nothing when that was done."""
        for host in self._hosts.values():
            host.begin_end()
        for host in self._hosts.values():
            host.end()
        self._hosts.clear()
        if self._janitor.stdin is not None and not self._janitor.stdin.closed:
            _, said = self._janitor.communicate(timeout=END_SECONDS)
            if self._janitor.returncode != 0:
                raise HostError(f"Not all is removed: {said.decode(errors='replace').strip()}")

    def _up(self) -> None:
        count = len(self.names)
        indices = range(1, count + 1)
        for i in indices:
            given = self._options.get(i, HostOptions())
            option = replace(given, shown=(*given.shown, *self._shown))
            configuration.write(self.number, i, count, bed=self.folder, option=option)
        dead = f"{subnet(self.number)}.{DEAD}"
        ssh.write(self.folder, {f"h{i}": self.address(i) for i in indices}, dead=dead)
        self._make_bridge({DEAD: dead, **{i: self.address(i) for i in indices}})
        for i in indices:
            self._start(i)
        for i in indices:
            self._hosts[i].wait_ready(self.address(i))

    def _make_bridge(self, addresses: dict[int, str]) -> None:
        bridge = f"{prefix(self.number)}br"
        lines = [
            f"link add {bridge} address {mac(self.number, 0)} type bridge",
            f"addr add {self.head_address}/24 dev {bridge}",
            f"link set {bridge} up",
        ]
        # With the neighbours known, an address that nobody answers for is silent, as behind a router.
        lines += [
            f"neigh replace {address} lladdr {mac(self.number, i)} dev {bridge}"
            for i, address in addresses.items()
        ]
        run("ip", "-batch", "-", text="\n".join(lines))

    def _start(self, i: int) -> None:
        assert self._janitor.stdin is not None
        # All that belongs to the bed holds this: the janitor removes the rest when nobody does.
        lifeline = self._janitor.stdin.fileno()
        self._hosts[i] = Booted(self.number, i, own=self.folder / f"h{i}", lifeline=lifeline)

    def _living(self, i: int) -> Booted:
        host = self._hosts.get(i)
        if host is None or host.has_ended():
            raise HostError(
                f"Host h{i} is not running; the hosts are {', '.join(self.names) or 'none'}."
            )
        return host
