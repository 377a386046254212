"""Sees to what test hosts, Slurm and MPI need: `python -m tests.testbed.install`.

Programs that are there are taken. Those that are not come from the system's package manager, on Debian
and its kin and for root only, and not where systemd runs: the packages are of services that it would
start, now and at every start of that machine. No service is started here.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.browser.install import can_use_apt
from tests.testbed.possible import HOSTS, MPI, SLURM, lacking, why_no_hosts

PACKAGES = {
    "ip": "iproute2",
    "nsenter": "util-linux",
    "setpriv": "util-linux",
    "unshare": "util-linux",
    "sshd": "openssh-server",
    "ssh": "openssh-client",
    "ssh-keygen": "openssh-client",
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
    "sbatch": "slurm-client",
    "salloc": "slurm-client",
    "scontrol": "slurm-client",
    "mpirun": "openmpi-bin",
}
INSTALL_SECONDS = 300.0
POLICY = Path("/usr/sbin/policy-rc.d")
SYSTEMD = Path("/run/systemd/system")


@contextmanager
def no_services(policy: Path = POLICY) -> Iterator[None]:
    """Has Debian's packages start nothing; where somebody has said what may start, that stays."""
    if policy.exists():
        yield
        return
    policy.write_text("#!/bin/sh\nexit 101\n")
    policy.chmod(0o755)
    try:
        yield
    finally:
        policy.unlink()


def apt(*arguments: str) -> bool:
    """Runs apt-get with its output shown; whether it ended well and in time."""
    print("test bed: apt-get", *arguments, flush=True)
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            ("apt-get", *arguments), env=environment, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        print(f"test bed: {error}", flush=True)
        return False
    return done.returncode == 0


def install() -> str | None:
    """Gets what is missing.

    Returns:
      None when test hosts, Slurm and MPI can be used here, else a sentence that says why not.
    """
    missing = lacking((*HOSTS, *SLURM, *MPI))
    if missing and can_use_apt() and not SYSTEMD.exists():
        packages = sorted({PACKAGES[program] for program in missing})
        with no_services():
            if apt("update"):
                apt("install", "-y", "--no-install-recommends", *packages)
        missing = lacking((*HOSTS, *SLURM, *MPI))
    if missing:
        packages = sorted({PACKAGES[program] for program in missing})
        return (
            f"The tests on many hosts need {', '.join(missing)}, which this machine lacks, and which are not "
            f"installed by themselves here: on Debian, run apt-get install {' '.join(packages)} as root."
        )
    return why_no_hosts()


def main() -> None:
    """Prints one line; ends with an error only in CI, where the tests are never skipped."""
    said = install()
    if said is None:
        print("test bed: hosts, Slurm and MPI can be used here")
    elif os.environ.get("CI"):
        sys.exit(f"test bed: {said}")
    else:
        print(f"test bed: {said} Tests that need it are skipped.")


if __name__ == "__main__":
    main()
