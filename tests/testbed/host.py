"""One host: `python host.py FILE`, a program that needs root and only the standard library.

It makes the namespaces and starts the host's first process, which mounts what the host has of its
own, starts sshd and reaps. The host ends with that process, and that process at the end of input:
so it ends with whoever holds the other end of the pipe, however that ends.
"""

from __future__ import annotations

import ctypes
import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

NEW_MOUNT, NEW_UTS, NEW_IPC, NEW_PID, NEW_NET = (
    0x20000,
    0x4000000,
    0x8000000,
    0x20000000,
    0x40000000,
)
BIND, MOVE, RECURSIVE, PRIVATE = 0x1000, 0x2000, 0x4000, 0x40000
DIE_WITH_PARENT = 1
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

libc = ctypes.CDLL(None, use_errno=True)


def check(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def mount(
    source: str | Path, target: str | Path, kind: str = "", flags: int = 0, data: str = ""
) -> None:
    arguments = [
        os.fsencode(source),
        os.fsencode(target),
        kind.encode() or None,
        flags,
        data.encode() or None,
    ]
    check(libc.mount(*arguments), f"mount {source} on {target}")


def memory(target: str | Path, *, size: str = "50%", mode: str = "755") -> None:
    """Mounts an empty file system in memory."""
    mount("memory", target, "tmpfs", data=f"mode={mode},size={size}")


def bind(source: Path, target: Path) -> None:
    """Shows `source` of this machine at `target`."""
    if source.is_dir():
        target.mkdir(parents=True, exist_ok=True)
    mount(source, target, flags=BIND)


def mount_home(scratch: Path) -> None:
    """Gives the host a /root that reads this machine's and keeps what is written to itself."""
    upper, work = scratch / "upper", scratch / "work"
    upper.mkdir()
    work.mkdir()
    # What the person of this machine has there would take its time at every command through ssh.
    (upper / ".bashrc").touch()
    mount("home", "/root", "overlay", data=f"lowerdir=/root,upperdir={upper},workdir={work}")


def mount_temporary(scratch: Path, *, size: str, shown: list[str]) -> None:
    """Gives the host a /tmp of its own, with only the folders `shown` of this machine's in it."""
    staged = scratch / "tmp"
    staged.mkdir()
    memory(staged, size=size, mode="1777")
    for path in map(Path, shown):
        bind(path, staged / path.relative_to("/tmp"))
    # What is written in /root can be seen apart from what was there.
    bind(scratch, staged / scratch.relative_to("/tmp"))
    mount(staged, "/tmp", flags=MOVE)


def mount_system(scratch: Path) -> None:
    """Shows the host its own processes and network; the control groups stay, slurmd looks for them."""
    mount("proc", "/proc", "proc")
    groups = scratch / "cgroup"
    groups.mkdir()
    mount("/sys/fs/cgroup", groups, flags=BIND | RECURSIVE)
    mount("sysfs", "/sys", "sysfs")
    mount(groups, "/sys/fs/cgroup", flags=MOVE)
    memory("/dev/shm", mode="1777")
    memory("/run")
    Path("/run/sshd").mkdir()


def become_host(config: dict[str, Any]) -> None:
    """Mounts all the host has of its own, in the namespaces this process is in."""
    folder = Path(config["folder"])
    socket.sethostname(config["name"])
    mount("none", "/", flags=RECURSIVE | PRIVATE)
    scratch = folder / "scratch"
    memory(scratch)
    for name in ("hosts", "resolv.conf"):
        if (target := Path("/etc", name).resolve()).exists():
            bind(folder / name, target)
    mount_system(scratch)
    mount_home(scratch)
    mount_temporary(scratch, size=config["tmp_size"], shown=config["shown"])
    if config["var_tmp"]:
        # Where Python goes when /tmp is full.
        bind(Path("/tmp"), Path("/var/tmp"))


def reap(*_: object) -> None:
    """Takes the end of every process that has lost its parent."""
    try:
        while os.waitpid(-1, os.WNOHANG) != (0, 0):
            pass
    except ChildProcessError:
        pass


def first_process(config: dict[str, Any]) -> None:
    """Runs as process 1 of the host until the end of input, or until it is killed."""
    become_host(config)
    os.chdir("/")
    # A line says that the network cable is there.
    sys.stdin.buffer.readline()
    environment = {"PATH": PATH, "HOME": "/root"}
    lines = "\n".join(config["network"]).encode()
    subprocess.run(["ip", "-batch", "-"], input=lines, env=environment, check=True)
    signal.signal(signal.SIGCHLD, reap)
    for command in config["services"]:
        subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=2)
    sys.stdin.buffer.read()


def main() -> None:
    config = json.loads(Path(sys.argv[1]).read_text())
    os.umask(0o022)
    check(libc.unshare(NEW_MOUNT | NEW_UTS | NEW_IPC | NEW_PID | NEW_NET), "unshare")
    first = os.fork()
    if first == 0:
        check(libc.prctl(DIE_WITH_PARENT, signal.SIGKILL), "prctl")
        first_process(config)
        os._exit(0)
    os.write(1, f"{first}\n".encode())
    os.close(1)
    os.waitpid(first, 0)


if __name__ == "__main__":
    main()
