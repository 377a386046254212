"""Looking at all hosts at once: facts first, then whether each reaches each."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from nbdist.engine import checkup
from nbdist.engine.jax.backend import backend
from nbdist.engine.tensorflow.context import started
from nbdist.launch.doctor.finding import THIS_MACHINE, Examined, Facts
from nbdist.launch.doctor.refused import shell
from nbdist.launch.doctor.visit import Visit
from nbdist.launch.hostlist import AskedHost
from nbdist.launch.ssh import SshOptions


def examine_all(
    hosts: Sequence[AskedHost], options: SshOptions, *, folder: str | None = None
) -> tuple[list[Examined], Facts]:
    """Looks at hosts, all at once: as long as the slowest takes, and `CONNECT_SECONDS` where a way is barred.

    Args:
      hosts: What to look at; this machine where one of them is local.
      options: How hosts are reached.
      folder: A folder that should exist on each, or none.

    Returns:
      One entry a host, in the same order, and the facts of this machine.
    """
    asked = {"folder": folder}
    visits = {host.name: Visit(host, options, asked) for host in hosts if not host.local}
    with _ending(visits.values()), ThreadPoolExecutor(max_workers=len(visits) + 1) as pool:
        # Whoever waits for these may be interrupted; the pool then waits for nobody.
        try:
            here = pool.submit(kernel_facts, asked)
            list(pool.map(Visit.look, visits.values()))
            kernel = here.result()
            reached, reachable = _reach(pool, list(visits.values()))
        except BaseException:
            for visit in visits.values():
                visit.kill()
            raise
    return [
        _examined(host, options, kernel, visits.get(host.name), reached, reachable)
        for host in hosts
    ], kernel


def kernel_facts(asked: Mapping[str, Any]) -> Facts:
    """Facts of this process and its machine, with the `backends` that are already up in it."""
    jax = backend()
    up = [] if jax is None else [{"framework": "jax", "platform": str(jax.platform)}]
    if started():
        up.append({"framework": "tensorflow", "platform": ""})
    return {**checkup.checkup(dict(asked)), "backends": up}


@contextlib.contextmanager
def _ending(visits: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for visit in visits:
            visit.end()


def _reach(
    pool: ThreadPoolExecutor, visits: Sequence[Visit]
) -> tuple[dict[str, dict[str, Facts]], dict[str, Facts]]:
    """How each host reaches this machine and all others, and how this machine reaches each."""
    with contextlib.ExitStack() as stack:
        here = _listeners(visits, stack)
        ports = {
            visit.host.name: visit.facts["listening"]
            for visit in visits
            if visit.facts is not None and "listening" in visit.facts
        }
        targets: dict[str, dict[str, Sequence[Any]]] = {}
        for visit in visits:
            client = _client(visit)
            own = {THIS_MACHINE: here[client]} if client in here else {}
            others = {name: port for name, port in ports.items() if name != visit.host.name}
            targets[visit.host.name] = {**own, **others}
        back = pool.submit(checkup.connect, list(ports.values()))
        answers = pool.map(lambda v: v.connect(list(targets[v.host.name].values())), visits)
        reached = {
            visit.host.name: dict(zip(targets[visit.host.name], answer, strict=False))
            for visit, answer in zip(visits, answers, strict=True)
        }
        return reached, dict(zip(ports, back.result(), strict=True))


def _listeners(visits: Sequence[Visit], stack: contextlib.ExitStack) -> dict[str, tuple[str, int]]:
    """Listeners at each address of this machine that some host sees it under."""
    found: dict[str, tuple[str, int]] = {}
    for address in {client for visit in visits if (client := _client(visit))}:
        # Behind a translation of addresses it is none of this machine's.
        with contextlib.suppress(OSError):
            listener: socket.socket = stack.enter_context(checkup.listen(address))
            found[address] = (address, listener.getsockname()[1])
    return found


def _client(visit: Visit) -> str:
    seen = (visit.facts or {}).get("seen_as") or {}
    return str(seen.get("client", ""))


def _examined(
    host: AskedHost,
    options: SshOptions,
    kernel: Facts,
    visit: Visit | None,
    reached: Mapping[str, Mapping[str, Facts]],
    reachable: Mapping[str, Facts],
) -> Examined:
    processes = host.processes or 1
    if visit is None:
        return Examined(host=host.name, facts=kernel, processes=processes)
    return Examined(
        host=host.name,
        shell=shell(host, options),
        facts=visit.facts,
        trouble=visit.trouble,
        clock=visit.clock,
        reached=reached.get(host.name, {}),
        reachable=reachable.get(host.name),
        processes=processes,
    )
