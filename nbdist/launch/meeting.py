"""Where the processes of one start find each other; chosen anew at every start."""

from __future__ import annotations

import random
import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from nbdist.errors import OptionError
from nbdist.launch.plan import Plan

LOOPBACK = "127.0.0.1"


@dataclass(frozen=True, slots=True, kw_only=True)
class Meeting:
    """Addresses, each `HOST:PORT`.

    `coordinator` is where process 0 serves; `tasks` where each process serves, by process id, for frameworks
    in which each does.
    """

    coordinator: str
    tasks: Mapping[int, str]

    @property
    def on_loopback(self) -> bool:
        """Whether nothing outside this machine is meant to reach it."""
        return self.coordinator.startswith(LOOPBACK)


def meet(plan: Plan, *, again: bool = False) -> Meeting:
    """The addresses of a plan, with free ports where none were asked for.

    Args:
      plan: What is to be started.
      again: The ports of the first time are still in use; hosts stay, other ports are chosen.
    """
    ids = [process.process_id for process in plan.processes]
    if plan.framework == "tensorflow":
        addresses = list(plan.addresses)
        if again or not addresses:
            hosts = [address.rpartition(":")[0] for address in addresses] or [LOOPBACK] * len(ids)
            ports = free_ports(len(ids))
            addresses = [f"{host}:{port}" for host, port in zip(hosts, ports, strict=True)]
        tasks = dict(zip(ids, addresses, strict=True))
        return Meeting(coordinator=tasks[ids[0]], tasks=tasks)
    asked = plan.addresses[0] if plan.addresses else plan.coordinator
    return Meeting(coordinator=asked or f"{LOOPBACK}:{free_port()}", tasks={})


def checked_coordinator(text: str | None, *, option: str = "--coordinator") -> str | None:
    """`HOST[:PORT]` made complete, with a free port where none is named.

    Raises:
      OptionError: The port is in use, or cannot be read.
    """
    if text is None:
        return None
    host, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    if not port:
        return f"{host}:{free_port(host)}"
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise OptionError(f"{option} {text!r}: expected HOST or HOST:PORT.")
    _try_port(host, int(port), text, option)
    return text


def _try_port(host: str, port: int, text: str, option: str) -> None:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OptionError(
                f"{option} {text}: port {port} cannot be used on this machine "
                f"({error.strerror}). A new job that meets an old coordinator there joins and "
                "breaks it; leave the port out, and a free one is chosen."
            ) from error


def free_port(host: str = LOOPBACK) -> int:
    """A TCP port that is free on `host` at this moment.

    Raises:
      OptionError: `host` is no address of this machine.
    """
    (port,) = free_ports(1, host)
    return port


def free_ports(count: int, host: str = LOOPBACK) -> list[int]:
    """So many different TCP ports that are free on `host` and on every other address of this machine.

    They are bound later, by other processes, so they come from below the range out of which the system gives
    ports to whoever asks for any: one of those may be gone a moment later.

    Raises:
      OptionError: `host` is no address of this machine.
    """
    _refuse_foreign_host(host)
    below = _first_given_port()
    candidates = range(FIRST_PORT, below) if below - FIRST_PORT > 1000 else range(1024, 65536)
    found: list[int] = []
    while len(found) < count:
        port = _RANDOM.choice(candidates)
        if port not in found and _is_free(port):
            found.append(port)
    return found


FIRST_PORT = 20000
"""Below it many services have ports of their own."""

_RANDOM = random.SystemRandom()
"""Two notebooks that both call `random.seed(0)` must not meet at one port."""


def _refuse_foreign_host(host: str) -> None:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise OptionError(
                f"--coordinator {host}: not an address of this machine ({error.strerror or error})."
            ) from error


def _is_free(port: int) -> bool:
    with closing(socket.socket()) as probe:
        try:
            probe.bind(("", port))
        except OSError:
            return False
    return True


def _first_given_port() -> int:
    """Where the range begins out of which the system gives ports (Linux; elsewhere that of IANA)."""
    try:
        text = Path("/proc/sys/net/ipv4/ip_local_port_range").read_text()
        return int(text.split()[0])
    except (OSError, ValueError, IndexError):
        return 49152
