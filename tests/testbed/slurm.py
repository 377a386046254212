"""A real Slurm: its controller on this machine, its nodes on the hosts of a test bed.

It takes Debian's packages, and neither systemd nor control groups. All it writes is in the bed's folder,
and no process of it outlives this one or the bed.
"""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import time
from pathlib import Path
from types import TracebackType

from tests.testbed.host import PATH
from tests.testbed.hosts import DIE_WITH_PARENT, HostError, TestBed

START_SECONDS = 30.0
END_SECONDS = 10.0
POLL_SECONDS = 0.05
FIRST_PORT = 16800
"""Of the controllers, which listen on every address of this machine: the next ones are other beds'."""

CONFIGURATION = """
ClusterName=testbed
SlurmctldHost={machine}({address})
SlurmctldPort={port}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
CredType=cred/munge
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
KillWait=2
SchedulerParameters=batch_sched_delay=0,sched_min_interval=0
SlurmctldPidFile={folder}/slurmctld.pid
SlurmctldLogFile={folder}/slurmctld.log
StateSaveLocation={folder}/state
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmdLogFile={folder}/slurmd.%n.log
SlurmdSpoolDir={folder}/spool.%n
SlurmdParameters=config_overrides
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE State=UP OverSubscribe=YES
PartitionName=closed Nodes=ALL MaxTime=INFINITE State=DOWN
"""


class Slurm:
    """Slurm on all hosts of a bed, from entering until leaving.

    The nodes are called as the hosts are, with `cpus` processors each; there are the partitions `debug`
    and `closed`, where jobs wait for ever with the reason PartitionDown.

    Args:
      bed: The hosts, which must be up.
      cpus: Of each node, whatever this machine has.

    Raises:
      HostError: Slurm did not start, with what it said last.
    """

    def __init__(self, bed: TestBed, *, cpus: int = 4) -> None:
        self.bed = bed
        self.folder = bed.folder / "slurm"
        self._cpus = cpus
        self._daemons: list[subprocess.Popen[bytes]] = []
        self._entered: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Slurm:
        try:
            self._write_files()
            self._start_daemons()
            self._wait_ready()
        except BaseException:
            self._end_daemons()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self.cancel_all()
        finally:
            self._end_daemons()

    @property
    def environment(self) -> dict[str, str]:
        """For Slurm's commands on this machine: that of the tests, and where this Slurm is."""
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("SLURM_")
        }
        return {**inherited, "SLURM_CONF": str(self.folder / "slurm.conf")}

    def run(self, *command: str, timeout_s: float = 60.0) -> subprocess.CompletedProcess[str]:
        """Runs one of Slurm's commands on this machine, and returns how it ended and what it said."""
        return subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            stdin=subprocess.DEVNULL,
            env=self.environment,
            cwd="/",
            check=False,
        )

    def jobs(self) -> list[str]:
        """Every job that waits, runs or is ending: number, state and reason."""
        return self.run("squeue", "--noheader", "--format=%i %T %r").stdout.splitlines()

    def cancel_all(self) -> None:
        """Cancels every job and waits until they have ended.

        Raises:
          HostError: Some have not.
        """
        if self.jobs():
            self.run("scancel", "--user=root")
        until = time.monotonic() + END_SECONDS
        while jobs := self.jobs():
            if time.monotonic() > until:
                raise HostError(f"Slurm's jobs do not end when cancelled: {', '.join(jobs)}.")
            time.sleep(POLL_SECONDS)

    def _write_files(self) -> None:
        self.folder.mkdir()
        (self.folder / "state").mkdir()
        key = self.folder / "munge.key"
        key.touch(mode=0o600)
        key.write_bytes(secrets.token_bytes(128))
        names = enumerate(self.bed.names, start=1)
        text = CONFIGURATION.format(
            machine=socket.gethostname().partition(".")[0],
            address=self.bed.head_address,
            port=FIRST_PORT + self.bed.number,
            folder=self.folder,
            nodes="\n".join(
                f"NodeName={name} NodeAddr={self.bed.address(i)} CPUs={self._cpus} RealMemory=4000"
                for i, name in names
            ),
        )
        (self.folder / "slurm.conf").write_text(text)

    def _start_daemons(self) -> None:
        files = {"key-file": "munge.key", "socket": "munge.socket", "pid-file": "munge.pid"}
        files |= {"log-file": "munge.log", "seed-file": "munge.seed"}
        options = (f"--{name}={self.folder / file}" for name, file in files.items())
        self._start("munged", *DIE_WITH_PARENT, "munged", "--foreground", "--force", *options)
        self._wait_for(self.folder / "munge.socket")
        configuration = str(self.folder / "slurm.conf")
        self._start("slurmctld", *DIE_WITH_PARENT, "slurmctld", "-D", "-f", configuration)
        for i, name in enumerate(self.bed.names, start=1):
            command = self.bed.command(i, "slurmd", "-D", "-f", configuration, "-N", name)
            self._entered.append(self._start(name, *command))

    def _start(self, name: str, *command: str) -> subprocess.Popen[bytes]:
        with (self.folder / f"{name}.output").open("wb") as output:
            daemon = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                env={"PATH": PATH, "HOME": "/root"},
            )
        self._daemons.append(daemon)
        return daemon

    def _wait_for(self, path: Path) -> None:
        until = time.monotonic() + START_SECONDS
        while not path.exists():
            self._check_running(until)
            time.sleep(POLL_SECONDS)

    def _wait_ready(self) -> None:
        """Waits until every node is idle."""
        until = time.monotonic() + START_SECONDS
        while True:
            said = self.run("sinfo", "--noheader", "--Node", "--partition=debug", "--format=%T")
            if said.stdout.split() == ["idle"] * len(self.bed.names):
                return
            self._check_running(until)
            time.sleep(POLL_SECONDS)

    def _check_running(self, until: float) -> None:
        ended = [daemon for daemon in self._daemons if daemon.poll() is not None]
        if ended or time.monotonic() > until:
            logs = sorted(self.folder.glob("*.output")) + sorted(self.folder.glob("*.log"))
            last = "\n".join(
                f"{log.name}: {log.read_text(errors='replace')[-1000:]}" for log in logs
            )
            raise HostError(f"Slurm did not start:\n{last}")

    def _end_daemons(self) -> None:
        for daemon in reversed(self._daemons):
            if daemon.poll() is None:
                os.kill(self._process(daemon), signal.SIGTERM)
        for daemon in self._daemons:
            try:
                daemon.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait(END_SECONDS)
        self._daemons.clear()

    def _process(self, daemon: subprocess.Popen[bytes]) -> int:
        """The daemon itself: on a host it is the child of what entered the host, and ends before that."""
        if daemon not in self._entered:
            return daemon.pid
        children = Path(f"/proc/{daemon.pid}/task/{daemon.pid}/children").read_text().split()
        return int(children[0]) if children else daemon.pid
