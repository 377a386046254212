"""Facts about the machine a process runs on, without any judgement.

One file that imports nothing but the standard library, and nothing of nbdist: its source is also sent to
hosts that have no nbdist, or an older Python (3.8 and later).
"""

from __future__ import annotations

import contextlib
import errno
import getpass
import ipaddress
import json
import os
import re
import select
import shutil
import socket
import stat
import sys
import tempfile
import threading
import time
from importlib import metadata, util
from pathlib import Path
from typing import TYPE_CHECKING, Any, Dict  # noqa: UP035 - Python 3.8

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

PACKAGES = ("ipyparallel", "jax", "jaxlib", "numpy", "keras", "tensorflow", "libtpu")
VARIABLES = re.compile(
    r"(SLURM|OMPI|PMI\w*|TPU|CLOUD_TPU|MEGASCALE|JAX|KERAS)_.+|TF_CONFIG|XLA_FLAGS|LIBTPU_INIT_ARGS"
    r"|KUBERNETES_SERVICE_HOST|(?i:https?|all|grpc|no)_(?i:proxy)"
)
SECRET = re.compile(r"KEY|TOKEN|SECRET|PASS|CREDENTIAL|AUTH|JWT|COOKIE", re.IGNORECASE)
HIDDEN = "(not shown)"
LONGEST_VALUE = 200

DEVICES = ("dev/accel*", "dev/vfio/[0-9]*")
LOCKS = "tmp/libtpu_lockfile*"
GOOGLE_PCI_VENDOR = "0x1ae0"
TPU_PCI_DEVICES = (
    *("0x0027", "0x0056", "0x005e", "0x0062", "0x0063", "0x006f", "0x0076"),
    *("0x007c", "0x0083"),  # since jax 0.11.1
)
"""Google's network cards and disks are PCI devices too. Source: jax/_src/hardware_utils.py of jax 0.12.0.1."""
FIREWALLS = ("ufw", "firewall-cmd")
SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"
NAME_SECONDS = 1.0
CONNECT_SECONDS = 1.5

Facts = Dict[str, Any]  # noqa: UP006 - evaluated, and Python 3.8 has no other


def checkup(asked: Facts) -> Facts:
    """Return facts about this machine and the environment of this process.

    Takes 10 to 30 ms; up to a second longer if no name server answers for the machine's own name. Needs no
    package, imports none, starts nothing, and leaves nothing behind.

    Args:
      asked: `folder`: a path that should exist here, or none. `connect`: `[host, port]` pairs to reach.

    Returns:
      Facts that JSON can carry. Sizes are in bytes, `time` in Unix seconds; None stands for what cannot be
      found out on this system.
    """
    folder = asked.get("folder")
    facts: Facts = {
        "host": socket.gethostname(),
        "python": list(sys.version_info[:3]),
        "executable": sys.executable,
        "user": _user(),
        "name": own_name(socket.gethostname()),
        "seen_as": seen_as(os.environ),
        **packages(PACKAGES),
        "variables": variables(os.environ),
        "memory": memory(),
        "temporary": temporary(os.environ.get("TMPDIR") or "/tmp"),
        "folder": {"path": folder, "exists": Path(folder).is_dir()} if folder else None,
        "accelerators": accelerators(),
        "locks": locks(),
        "holders": holders(),
        "leftovers": leftovers(),
        "firewalls": [tool for tool in FIREWALLS if shutil.which(tool, path=SYSTEM_PATH)],
        "port_range": _numbers(Path("/proc/sys/net/ipv4/ip_local_port_range")),
    }
    if asked.get("connect"):
        facts["connected"] = connect(asked["connect"])
    facts["time"] = time.time()
    return facts


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())


def _nbdist() -> str | None:
    """Return the version that an import would find; an editable installation may have changed since."""
    spec = util.find_spec("nbdist")
    if spec is None or spec.origin is None:
        return None
    found = re.search(
        r'^__version__ = "(.+)"', _read(Path(spec.origin).parent / "version.py"), re.M
    )
    return found[1] if found else version("nbdist")


def version(module: str) -> str | None:
    """Return the version of a module that could be imported, without importing it.

    None where there is no such module. Empty where the module is there and its version cannot be known: it
    came without metadata, or several distributions of different versions have it.
    """
    found = _installed(module)
    return found and found[1]


def packages(modules: Sequence[str]) -> Facts:
    """Return the `version` of nbdist and each module, and the `distributions` that have another name."""
    found = {module: _installed(module) for module in modules}
    versions = {module: had and had[1] for module, had in found.items()}
    others = {module: had[0] for module, had in found.items() if had and had[0] not in ("", module)}
    return {"packages": {"nbdist": _nbdist(), **versions}, "distributions": others}


def _installed(module: str) -> tuple[str, str] | None:
    """Return name and version of the distribution that has a module: `tensorflow` may be `tensorflow-cpu`'s."""
    if not _importable(module):
        return None
    try:
        return module, metadata.version(module)
    except metadata.PackageNotFoundError:
        pass
    # Takes half a second, since it reads the file lists of all distributions: asked only if the names differ.
    # Python 3.8 and 3.9 have no such function.
    ask = getattr(metadata, "packages_distributions", None)
    names = ask().get(module, []) if ask else []
    versions = {metadata.version(name) for name in names}
    return (names[0], versions.pop()) if len(versions) == 1 else ("", "")


def _importable(module: str) -> bool:
    if module in sys.modules:
        return sys.modules[module] is not None
    spec = util.find_spec(module)
    # Without an origin it is only a folder of that name.
    return spec is not None and spec.origin is not None


def own_name(name: str, seconds: float = NAME_SECONDS) -> Facts:
    """Return the `addresses` that a machine's own name resolves to, and which are its `own`; or the `error`.

    Waits at most `seconds` for a silent name server.
    """
    answer: list[Any] = []

    def ask() -> None:
        try:
            found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
            answer.append(sorted({str(entry[4][0]) for entry in found}))
        except (OSError, UnicodeError) as error:
            answer.append(error)

    asking = threading.Thread(target=ask, daemon=True)
    asking.start()
    asking.join(seconds)
    if not answer:
        return {"addresses": [], "own": [], "error": f"no answer within {seconds:g} s"}
    if isinstance(answer[0], Exception):
        return {"addresses": [], "own": [], "error": str(answer[0])}
    return {"addresses": answer[0], "own": [a for a in answer[0] if is_own(a)], "error": None}


def is_own(address: str) -> bool:
    """Return whether an IP address belongs to this machine: only its own can be bound. False for a name."""
    try:
        version = ipaddress.ip_address(address).version
        family = socket.AF_INET6 if version == 6 else socket.AF_INET
        with contextlib.closing(socket.socket(family, socket.SOCK_DGRAM)) as probe:
            probe.bind((address, 0))
    except (OSError, ValueError):
        return False
    return True


def seen_as(environment: Mapping[str, str]) -> Facts | None:
    """Return the addresses of both ends of the ssh connection this process runs under: `client` and `server`."""
    words = environment.get("SSH_CONNECTION", "").split()
    return {"client": words[0], "server": words[2]} if len(words) == 4 else None


def variables(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that give frameworks and schedulers a cluster; secrets without their value."""
    found = {}
    for name, value in sorted(environment.items()):
        if VARIABLES.fullmatch(name) and value:
            # A proxy's address may hold a password.
            shown = re.sub(r"//[^/@]*@", "//", value)[:LONGEST_VALUE]
            found[name] = HIDDEN if SECRET.search(name) else shown
    return found


def memory(root: Path = Path("/")) -> Facts:
    """Return `total` and `available` bytes, within the limit of this process's control group."""
    sizes = {}
    for line in _read(root / "proc/meminfo").splitlines():
        words = line.split()
        sizes[words[0].rstrip(":")] = int(words[1]) * 1024
    total, available = sizes.get("MemTotal"), sizes.get("MemAvailable")
    for limit, used in _limits(root):
        total = limit if total is None else min(total, limit)
        left = max(0, limit - used)
        available = left if available is None else min(available, left)
    return {"total": total, "available": available}


def group(root: Path = Path("/")) -> str:
    """Return the control groups this process is in; processes with the same groups share their limits."""
    return _read(root / "proc/self/cgroup")


def _limits(root: Path) -> Iterable[tuple[int, int]]:
    """Yield limit and use of each control group above this process that has a limit (version 2, then 1)."""
    base = root / "sys/fs/cgroup"
    own = [line[3:] for line in _read(root / "proc/self/cgroup").splitlines() if line[:3] == "0::"]
    group = base / (own[0].lstrip("/") if own else "")
    groups = [group, *(parent for parent in group.parents if base in (parent, *parent.parents))]
    places = [(g, "memory.max", "memory.current") for g in groups]
    places.append((base / "memory", "memory.limit_in_bytes", "memory.usage_in_bytes"))
    for place, limit, used in places:
        bytes_limit, bytes_used = _numbers(place / limit), _numbers(place / used)
        # Version 1 shows a huge number where there is no limit.
        if bytes_limit and bytes_used and bytes_limit[0] < 1 << 60:
            cache = re.search(
                r"^(?:total_)?inactive_file (\d+)", _read(place / "memory.stat"), re.M
            )
            yield bytes_limit[0], bytes_used[0] - (int(cache[1]) if cache else 0)


def temporary(folder: str) -> Facts:
    """Return `free` bytes in the folder for temporary files; why it takes none, and where they go `instead`."""
    found: Facts = {"path": folder, "free": None, "error": None, "instead": None}
    try:
        found["free"] = shutil.disk_usage(folder).free
        _try_file(folder)
    except OSError as error:
        found["error"] = error.strerror or str(error)
        with contextlib.suppress(OSError):
            # Python looks further, last of all in the current folder.
            _try_file(tempfile.gettempdir())
            found["instead"] = tempfile.gettempdir()
    return found


def _try_file(folder: str) -> None:
    with tempfile.TemporaryFile(dir=folder) as file:
        # With less free space, a session's connection files and logs would not fit.
        file.write(b"." * (1 << 20))
        file.flush()


def accelerators(root: Path = Path("/")) -> Facts:
    """Return the number of `gpus` and of TPU chips (`tpus`) that the system shows."""
    gpus = [*root.glob("proc/driver/nvidia/gpus/*")] or [*root.glob("dev/nvidia[0-9]*")]
    # Only the first function of a device counts.
    vendors = root.glob("sys/bus/pci/devices/*.0/vendor")
    ours = [path.parent for path in vendors if _read(path).strip() == GOOGLE_PCI_VENDOR]
    return {
        "gpus": len(gpus or [*root.glob("dev/dri/renderD*")]),
        "tpus": sum(_read(folder / "device").strip() in TPU_PCI_DEVICES for folder in ours),
    }


def locks(root: Path = Path("/")) -> list[Facts]:
    """Return the lock files of libtpu, each with its `owner`."""
    found = []
    for path in sorted(root.glob(LOCKS)):
        try:
            found.append({"path": str(path), "owner": _owner(path)})
        except OSError:
            continue
    return found


def holders(root: Path = Path("/")) -> list[Facts]:
    """Return the processes that hold a TPU's device, as far as this user may see them."""
    devices = tuple(str(path) for pattern in DEVICES for path in root.glob(pattern))
    if not devices:
        return []
    found = []
    for pid, folder in _processes():
        held = sorted(_open_files(folder).intersection(devices))
        if held:
            found.append({**_described(pid, folder), "devices": held})
    return found


def leftovers() -> list[Facts]:
    """Return this user's nbdist processes whose parent is gone; nothing else will end them.

    Processes of a session that is kept without its kernel wait for another kernel and are left out.
    """
    found = []
    for pid, folder in _processes():
        status = _read(folder / "status")
        if pid == os.getpid() or not re.search(rf"^Uid:\s*{os.getuid()}\s", status, re.M):
            continue
        orphaned = re.search(r"^PPid:\s*1$", status, re.M)
        if orphaned and _is_ours(folder) and not _kept(folder):
            found.append(_described(pid, folder))
    return found


def _is_ours(folder: Path) -> bool:
    """Return whether a process is an agent or an engine, by its command line."""
    words = _bytes(folder / "cmdline")
    return any(name in words for name in (b"nbdist.agent", b"nbdist.engine"))


def _kept(process: Path) -> bool:
    """Return whether a process reads its orders from a named pipe, through which another kernel can reach it."""
    try:
        named = os.readlink(process / "fd" / "0").startswith("/")  # noqa: PTH115 - Python 3.8
        return named and stat.S_ISFIFO((process / "fd" / "0").stat().st_mode)
    except OSError:
        return False


def _processes() -> Iterable[tuple[int, Path]]:
    return [(int(path.name), path) for path in Path("/proc").glob("[0-9]*")]


def _open_files(process: Path) -> set[str]:
    found = set()
    with contextlib.suppress(OSError):
        for file in (process / "fd").iterdir():
            with contextlib.suppress(OSError):
                found.add(os.readlink(file))  # noqa: PTH115 - Python 3.8
    return found


def _described(pid: int, folder: Path) -> Facts:
    words = _bytes(folder / "cmdline").split(b"\0")
    command = b" ".join(words).decode("utf-8", "replace").strip()
    try:
        user = _owner(folder)
    except OSError:
        user = "?"
    return {"pid": pid, "user": user, "command": command[:LONGEST_VALUE]}


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def _read(path: Path) -> str:
    return _bytes(path).decode("utf-8", "replace")


def _numbers(path: Path) -> list[int] | None:
    words = _read(path).split()
    return [int(word) for word in words] if words and all(map(str.isdigit, words)) else None


def listen(address: str, port: int = 0) -> socket.socket:
    """Return a listening socket; the system completes connections, so nobody needs to accept.

    Raises:
      OSError: The address is not this machine's, or the port is taken.
    """
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.bind((address, port))
        listener.listen(128)
    except OSError:
        listener.close()
        raise
    return listener


def connect(targets: Sequence[Sequence[Any]], seconds: float = CONNECT_SECONDS) -> list[Facts]:
    """Try to connect to all `[address, port]` at once, and close again.

    Returns:
      For each pair `ms`, or the reason in `error`.
    """
    found: list[Facts] = [{"error": f"no answer within {seconds:g} s"} for _ in targets]
    poll = select.poll()
    waiting: dict[int, tuple[int, socket.socket]] = {}
    started = time.monotonic()
    for index, (address, port) in enumerate(targets):
        caller = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET)
        caller.setblocking(False)
        failed = caller.connect_ex((address, port))
        if failed not in (0, errno.EINPROGRESS):
            found[index] = {"error": os.strerror(failed)}
            caller.close()
            continue
        waiting[caller.fileno()] = (index, caller)
        poll.register(caller, select.POLLOUT)
    while waiting and time.monotonic() < started + seconds:
        for number, _ in poll.poll(1000 * max(0.0, started + seconds - time.monotonic())):
            poll.unregister(number)
            index, caller = waiting.pop(number)
            failed = caller.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            taken = round(1000 * (time.monotonic() - started), 1)
            found[index] = {"error": os.strerror(failed)} if failed else {"ms": taken}
            caller.close()
    for _, caller in waiting.values():
        caller.close()
    return found


def main() -> None:
    """Answer the lines on standard input: first facts, then what can be reached from here.

    The first line is the argument of `checkup`, with the `address` to listen at (default: the one where ssh came
    in). The second line holds `connect`. Each answer is a line of JSON with the key `checkup`, which tells it
    apart from what a shell may print at its start.
    """
    asked = json.loads(sys.stdin.buffer.readline())
    facts = checkup(asked)
    address = asked.get("address") or (facts["seen_as"] or {}).get("server")
    listener = None
    if address:
        try:
            listener = listen(address)
            facts["listening"] = [address, listener.getsockname()[1]]
        except OSError as error:
            facts["listening_error"] = f"{address}: {error.strerror}"
    _send(facts)
    line = sys.stdin.buffer.readline()
    if line:
        _send({"time": time.time()})
        _send({"connected": connect(json.loads(line)["connect"])})
        sys.stdin.buffer.readline()
    if listener is not None:
        listener.close()


def _send(answer: Facts) -> None:
    sys.stdout.write(json.dumps({"checkup": answer}) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
