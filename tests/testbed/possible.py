"""Whether this machine allows hosts and schedulers for the tests, and why not where it does not."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys

from tests.testbed.host import PATH

HOSTS = ("ip", "nsenter", "setpriv", "unshare", "sshd", "ssh", "ssh-keygen")
SLURM = ("munged", "slurmctld", "slurmd", "srun", "sbatch", "salloc", "scontrol")
MPI = ("mpirun",)
TRIAL = (
    *("unshare", "--net", "--uts", "--ipc", "--pid", "--mount", "--fork", "sh", "-ec"),
    """
    mount -t tmpfs none /tmp
    mkdir /tmp/upper /tmp/work
    mount -t overlay -o lowerdir=/root,upperdir=/tmp/upper,workdir=/tmp/work none /root
    mount -t proc proc /proc
    mount -t sysfs sysfs /sys
    ip link add nbd-trial type bridge
    ip link add nbd-one type veth peer name nbd-two
    """,
)
"""What the making of a host does, in namespaces that end with it."""


def lacking(programs: tuple[str, ...]) -> list[str]:
    """Those of the programs that this machine does not have."""
    return [program for program in programs if shutil.which(program, path=PATH) is None]


def lacking_sentence(programs: tuple[str, ...], purpose: str) -> str | None:
    """What is missing for a purpose and how to get it, or None."""
    if missing := lacking(programs):
        return (
            f"{purpose} need {', '.join(missing)}, which this machine lacks; "
            f"run python -m tests.testbed.install as root on Debian, or install what has them."
        )
    return None


@functools.cache
def why_no_hosts() -> str | None:
    """None when test hosts can be made here, else a sentence that says why not."""
    if not sys.platform.startswith("linux"):
        return f"Test hosts are made of Linux namespaces, and this is {sys.platform}."
    if os.geteuid() != 0:
        return (
            "Test hosts need root, for namespaces, mounts and network links: run the tests as root."
        )
    if said := lacking_sentence(HOSTS, "Test hosts"):
        return said
    tried = subprocess.run(TRIAL, capture_output=True, text=True, check=False)
    if tried.returncode != 0:
        said = " ".join(tried.stderr.split())
        return f"Test hosts need namespaces, mounts and links, which this machine forbids: {said}"
    return None


def why_no_slurm() -> str | None:
    """None when Slurm can run on test hosts here, else a sentence that says why not."""
    return why_no_hosts() or lacking_sentence(SLURM, "Tests of Slurm")


def why_no_mpi() -> str | None:
    """None when Open MPI can run on test hosts here, else a sentence that says why not."""
    return why_no_hosts() or lacking_sentence(MPI, "Tests of MPI")
