"""Connections between hosts: each connects to all others and to this machine, and this machine to each."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field, replace
from typing import Any

from nbdist.contract.checkup import Checkup, Connection
from nbdist.contract.wire import decode
from nbdist.launch.doctor.finding import THIS_MACHINE
from nbdist.launch.doctor.visit import Visit
from nbdist.machine import checkup
from nbdist.machine.ports import own_address

OUTSIDE = "192.0.2.1"
"""An address for documentation (RFC 5737). Nothing is sent there; it only shows the way out of this machine."""


@dataclass(frozen=True, slots=True)
class Reachability:
    """How attempts to connect ended: by host and its target, and by host for attempts from this machine."""

    reached: dict[str, dict[str, Connection]] = field(default_factory=dict)
    reachable: dict[str, Connection] = field(default_factory=dict)


def try_connections(pool: Executor, visits: Sequence[Visit]) -> Reachability:
    """Let all hosts connect to all, at once. Takes some milliseconds; `CONNECT_SECONDS` if one is blocked."""
    with contextlib.ExitStack() as stack:
        listening = _listening(visits, stack)
        ports: dict[str, Sequence[Any]] = {
            visit.host.name: visit.facts.listening
            for visit in visits
            if isinstance(visit.facts, Checkup) and visit.facts.listening is not None
        }
        targets = {visit.host.name: _targets(visit, listening, ports) for visit in visits}
        back = pool.submit(checkup.connect, list(ports.values()))
        answers = pool.map(lambda v: v.connect(list(targets[v.host.name].values())), visits)
        reached: dict[str, dict[str, Connection]] = {
            visit.host.name: {
                name: replace(given, address=str(target[0]))
                for (name, target), given in zip(
                    targets[visit.host.name].items(), answer, strict=False
                )
            }
            for visit, answer in zip(visits, answers, strict=True)
        }
        called = (decode(Connection, one) for one in back.result())
        return Reachability(reached, dict(zip(ports, called, strict=True)))


def _targets(
    visit: Visit, listening: dict[str, int], ports: dict[str, Sequence[Any]]
) -> dict[str, Sequence[Any]]:
    found = {name: port for name, port in ports.items() if name != visit.host.name}
    address = _address_for(visit)
    return {THIS_MACHINE: (address, listening[address]), **found} if address in listening else found


def _listening(visits: Sequence[Visit], stack: contextlib.ExitStack) -> dict[str, int]:
    """Open listeners at all addresses of this machine that hosts are to call; return their ports by address."""
    found: dict[str, int] = {}
    for address in {address for visit in visits if (address := _address_for(visit))}:
        with contextlib.suppress(OSError):
            listener = stack.enter_context(checkup.listen(address))
            found[address] = listener.getsockname()[1]
    return found


def _address_for(visit: Visit) -> str | None:
    """Return this machine's address as a host sees it; the address of the way out if another machine's is seen.

    ssh may go through another host, or a device on the way may change addresses.
    """
    if not isinstance(visit.facts, Checkup):
        return None
    seen = visit.facts.seen_as
    return seen.client if seen and checkup.is_own(seen.client) else own_address(OUTSIDE)
