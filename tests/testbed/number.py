"""Which numbers test beds have: each is a subnet, a prefix of names and a folder.

A bed holds the lock of its number while it lives, and so does its janitor: a number whose lock is
free and which still has a folder was left by a bed whose processes were all killed. Links without a
folder are somebody else's.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

STATE = Path("/tmp/nbdist-testbed")
LARGEST = 250
LINKS = Path("/sys/class/net")


def prefix(number: int) -> str:
    """What every link of bed `number` is called at the front; names of links have 15 characters."""
    return f"nbd{number}-"


def subnet(number: int) -> str:
    """The first three bytes of the bed's addresses."""
    return f"10.77.{number}"


def folder(number: int) -> Path:
    """Holds all the bed writes."""
    return STATE / str(number)


def links(number: int | None = None) -> list[str]:
    """The network links of this machine, or those of bed `number`."""
    return sorted(path.name for path in LINKS.glob("*" if number is None else f"{prefix(number)}*"))


def remove_link(name: str) -> None:
    """Removes a link unless the kernel just does, as it does with those of a host that has ended."""
    subprocess.run(("ip", "link", "delete", name), capture_output=True, check=False)


def lock(number: int) -> int | None:
    """Locks a number; the descriptor of its lock, or None when another holds it."""
    STATE.mkdir(mode=0o755, exist_ok=True)
    descriptor = os.open(STATE / f"{number}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        return None
    return descriptor


def used_elsewhere(number: int) -> bool:
    """Whether something else on this machine has the names or addresses of bed `number`.

    That can be a bed as well, of somebody with another /tmp.
    """
    if links(number):
        return True
    asked = ("ip", "-oneline", "-4", "route", "show", "root", f"{subnet(number)}.0/24")
    return bool(subprocess.run(asked, capture_output=True, text=True, check=True).stdout.strip())


def clear(number: int) -> None:
    """Removes the links and the folder of a bed whose processes have ended."""
    for link in links(number):
        remove_link(link)
    shutil.rmtree(folder(number), ignore_errors=True)


def claim() -> tuple[int, int]:
    """Takes a free number and removes what a killed bed left under it.

    Returns:
      The number, and the descriptor that holds its lock.

    Raises:
      RuntimeError: No number is free.
    """
    for number in range(1, LARGEST):
        descriptor = lock(number)
        if descriptor is None:
            continue
        if folder(number).exists():
            clear(number)
        if not used_elsewhere(number):
            folder(number).mkdir(mode=0o755)
            return number, descriptor
        os.close(descriptor)
    raise RuntimeError(
        f"All {LARGEST - 1} subnets 10.77.*.0/24 for test beds are in use on this machine: "
        f"end what uses them (ip route show root 10.77.0.0/16)."
    )


def known() -> Iterator[int]:
    """The numbers that ever had a bed on this machine, since it started."""
    for path in sorted(STATE.glob("*.lock")):
        yield int(path.stem)


def clear_abandoned() -> list[int]:
    """Removes all that killed test beds left; the numbers they had."""
    removed = []
    for number in known():
        descriptor = lock(number)
        if descriptor is None:
            continue
        if folder(number).exists():
            clear(number)
            removed.append(number)
        os.close(descriptor)
    return removed
