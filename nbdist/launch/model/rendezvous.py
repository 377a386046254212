"""Rendezvous of the processes of a plan: the addresses at which they find each other, chosen anew at every start.

A process serves at a port that was reserved for it, unless a person has chosen an address.
"""

from __future__ import annotations

import socket
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field

from nbdist.errors import OptionError
from nbdist.launch.model.framework import framework_named
from nbdist.launch.model.plan import Plan
from nbdist.machine.ports import LOOPBACK
from nbdist.spelling import option


@dataclass(frozen=True, slots=True, kw_only=True)
class Rendezvous:
    """Addresses, each `HOST:PORT`.

    `coordinator` is the address of JAX's coordination service; `served` says that an agent serves there, else
    process 0 does. `tasks` is where each process serves, by process id, in frameworks where each does. `own` is
    the address, without a port, under which other hosts know the host of each process; empty if a person has
    chosen the coordinator's address and all are on one machine. `relays` is where each process reaches the service
    through the agent of its host, by process id; processes that are not listed reach it directly.
    """

    coordinator: str
    tasks: Mapping[int, str]
    served: bool = False
    own: Mapping[int, str] = field(default_factory=dict)
    relays: Mapping[int, str] = field(default_factory=dict)

    def coordinator_of(self, process_id: int) -> str:
        """Return where one process reaches the service."""
        return self.relays.get(process_id, self.coordinator)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a process can serve: a port that is reserved for it, and its host's address.

    The address is None if all processes are on this machine, so that no other host needs one.
    """

    address: str | None
    port: int


def checked_coordinator(
    text: str | None, *, variable: str | None = None, here: bool = True
) -> str | None:
    """Return `HOST[:PORT]` if process 0 can serve there; without a port, one is reserved later.

    Args:
      text: The address, as a person wrote it.
      variable: The variable that holds it; None: the option `coordinator`.
      here: Whether process 0 is on this machine, so that it can be tried.

    Raises:
      OptionError: The host is not this machine, or the port is in use, or cannot be read.
    """
    if text is None:
        return None
    given = option("coordinator", text) if variable is None else f"{variable} {text}"
    host, _, port = text.rpartition(":") if ":" in text else (text, "", "")
    if not port:
        if here:
            _try_host(host)
        return host
    if not port.isdigit() or not 0 < int(port) < 65536:
        raise OptionError(f"{given}: expected HOST or HOST:PORT.")
    if here:
        _try_port(host, int(port), given)
    return text


def _try_port(host: str, port: int, given: str) -> None:
    with closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError as error:
            raise OptionError(
                f"{given}: port {port} cannot be used on this machine ({error.strerror}). A new job that finds "
                "an old coordinator there would join and break it. Leave the port out, and a free one is "
                "chosen."
            ) from error


def _try_host(host: str) -> None:
    with closing(socket.socket()) as probe:
        try:
            probe.bind((host, 0))
        except OSError as error:
            raise OptionError(
                f"{option('coordinator', host)}: not an address of this machine ({error.strerror or error})."
            ) from error


def meet(plan: Plan, places: Mapping[int, Place], *, again: bool = False) -> Rendezvous:
    """Return the addresses for a plan, at reserved ports where none were asked for.

    Args:
      plan: The processes to be started.
      places: Where each process can serve, by process id.
      again: Whether the ports of an earlier rendezvous are still in use: addresses that a person has chosen then
        keep their host, and get another port.
    """
    ids = [process.process_id for process in plan.processes]

    def serves(process_id: int, host: str | None = None) -> str:
        place = places[process_id]
        return f"{host or place.address or LOOPBACK}:{place.port}"

    own = {p: place.address for p, place in places.items() if place.address is not None}
    if framework_named(plan.framework).each_serves:
        addresses = list(plan.addresses)
        if again or not addresses:
            hosts: list[str | None] = [address.rpartition(":")[0] for address in addresses]
            hosts = hosts or [None] * len(ids)
            addresses = [serves(p, host) for p, host in zip(ids, hosts, strict=True)]
        tasks = dict(zip(ids, addresses, strict=True))
        return Rendezvous(coordinator=tasks[ids[0]], tasks=tasks, own=own)
    asked = plan.addresses[0] if plan.addresses else plan.coordinator
    if asked is not None and ":" not in asked:
        asked = serves(ids[0], asked)
    chosen = asked or serves(ids[0])
    # An address of this machine that a person has chosen is also used for gloo.
    here = set(own.values()) == {LOOPBACK}
    mine = {} if here and not chosen.startswith(LOOPBACK) else own
    return Rendezvous(coordinator=chosen, tasks={}, own=mine)
