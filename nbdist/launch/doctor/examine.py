"""Examination of all hosts at once: facts first, then whether each host reaches each other."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Any

from nbdist.contract.checkup import Checkup
from nbdist.contract.wire import decode
from nbdist.engine.frameworks import imported
from nbdist.launch.doctor.finding import Examined
from nbdist.launch.doctor.reachability import Reachability, try_connections
from nbdist.launch.doctor.refused import shell
from nbdist.launch.doctor.visit import Visit
from nbdist.launch.model.host_list import AskedHost
from nbdist.launch.model.ssh import SshOptions
from nbdist.machine import checkup


def examine_all(
    hosts: Sequence[AskedHost], options: SshOptions, *, folder: str | None = None
) -> tuple[list[Examined], Checkup]:
    """Examine all hosts at once. Takes as long as the slowest; `CONNECT_SECONDS` if a connection is blocked.

    Args:
      hosts: The hosts to examine; a local one stands for this machine.
      options: How hosts are reached.
      folder: A folder that should exist on each, or None.

    Returns:
      One entry per host, in the same order, and the facts of this machine.
    """
    asked = {"folder": folder}
    visits = {host.name: Visit(host, options, asked) for host in hosts if not host.local}
    with _ending(visits.values()), ThreadPoolExecutor(max_workers=len(visits) + 1) as pool:
        # An interrupt may come during the wait; the visits are then killed, so that the pool ends at once.
        try:
            here = pool.submit(kernel_facts, asked)
            # With a copy of the context, since error texts use the syntax of the person's interface.
            looks = [pool.submit(copy_context().run, visit.look) for visit in visits.values()]
            for look in looks:
                look.result()
            kernel = here.result()
            reachability = try_connections(pool, list(visits.values()))
        except BaseException:
            for visit in visits.values():
                visit.kill()
            raise
    return [
        _examined(host, options, kernel, visits.get(host.name), reachability) for host in hosts
    ], kernel


def kernel_facts(asked: Mapping[str, Any]) -> Checkup:
    """Return facts of this process and its machine, with the `backends` that are already up in it."""
    up = [
        {"framework": one.name, "platform": platform}
        for one in imported()
        if (platform := one.holds()) is not None
    ]
    return decode(Checkup, {**checkup.checkup(dict(asked)), "backends": up})


@contextlib.contextmanager
def _ending(visits: Any) -> Iterator[None]:
    try:
        yield
    finally:
        for visit in visits:
            visit.end()


def _examined(
    host: AskedHost,
    options: SshOptions,
    kernel: Checkup,
    visit: Visit | None,
    reachability: Reachability,
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
        reached=reachability.reached.get(host.name, {}),
        reachable=reachability.reachable.get(host.name),
        processes=processes,
    )
